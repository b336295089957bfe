package redislimit

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// grant is the Granter of a rate limiter's lease, or of one that holds nothing. It knows what the script needs to know of the grant. A lease
// of zero permits may be settled up several times; then all these settlements share the grant. The engine's mutex guards it.
type grant struct {
	decision

	e       *Limiter
	current *limits // under which it counts
	certain int64   // permits that may still be missing because of it; 0: it holds nothing
	stamp   stamp

	// Of a reservation whose permits were not there:
	waiter *machine.Waiter[*request]
}

// Settle implements [core.Granter]. It is one script call, which is sent once: if its reply is lost, it counts as performed. It returns
// when the store has replied or Timeout is over.
func (g *grant) Settle(had, now int) int {
	less := min(int64(had), maxNumber) - min(int64(now), maxNumber)
	g.e.perform(func() *task {
		if g.pendingLocked() { // it can only be refunded
			if now > 0 {
				now = had
				return nil
			}
			return g.e.cancelLocked(g)
		}
		if g.waiter != nil && g.certain == 0 && g.waiter.Answer.Outcome != machine.Granted { // it ended without its permits
			now = had
			return nil
		}
		if g.e.kind == kindConcurrency { // it was granted while the store was unavailable, and holds nothing
			return nil
		}
		if !g.e.limits.sameRate(g.current) { // no permit is certain to be missing because of it
			g.certain = 0
		}
		g.current = g.e.limits
		if less > 0 {
			return g.giveLocked(min(less, g.certain))
		}
		return g.chargeLocked(-less)
	})
	return now
}

// giveLocked returns the task that returns permits. The rest of the grant may return that many permits less.
func (g *grant) giveLocked(permits int64) *task {
	if permits == 0 {
		return nil
	}
	o := g.e.task(giveOp(permits, g.stamp))
	g.certain -= permits
	o.then = func(_ time.Time, r result, err error) {
		given := permits
		if err == nil {
			given = r.done
		}
		g.stamp.missing = max(g.stamp.missing-given, 0)
	}
	return o
}

// chargeLocked returns the task that takes permits in addition, available or not.
func (g *grant) chargeLocked(permits int64) *task {
	had := g.certain
	o := g.e.task(chargeOp(permits, had, g.stamp))
	o.then = func(_ time.Time, r result, err error) {
		if err != nil {
			return
		}
		g.certain = min(r.done+permits, maxNumber)
		if g.e.kind == kindBucket || had == 0 {
			g.stamp = r.stamp
		}
	}
	return o
}
