package limitertest

import "github.com/sluice-go/sluice/core"

// need is a set of conditions under which a rule applies.
type need uint

const (
	bubble    need = 1 << iota // exact instants, or to know that a request waits
	finite                     // a limit that can be reached
	drains                     // there may be nothing available
	pair                       // a limit of 2 at least
	queued                     // requests may wait
	bounded                    // a queue that can be full
	long                       // as many may wait as the limit is
	beyond                     // more may wait than the limit is
	oldest                     // the oldest is served first, of one flow
	newest                     // the newest is served first
	fair                       // flows get their shares, and there is room for them
	timed                      // permits come back with time
	automatic                  // by themselves
	manual                     // in TryReplenish
	held                       // permits stay taken until released
	unheld                     // they do not
	updates                    // Config.Update
	cores                      // the limiters of package core decide
	roams                      // Config.Roams
)

// unmet returns the first of the needs that is not met, "" if all are.
func (n need) unmet(f *facts) string {
	for _, c := range []struct {
		need
		met bool
		say string
	}{
		{bubble, !f.RealTime, "needs a bubble, and the limiter can't live in one"},
		{finite, !f.unlimited(), "the limiter is unlimited"},
		{drains, !f.unlimited() || f.Gate != nil, "the limiter is unlimited"},
		{pair, f.Limit >= 2, "needs a limit of 2 at least"},
		{queued, f.QueueLimit > 0, "the limiter has no queue"},
		{bounded, !f.unbounded(), "the queue is too long to be filled"},
		{long, f.QueueLimit >= f.Limit, "needs a queue of the limit at least"},
		{beyond, f.QueueLimit > f.Limit, "needs a queue above the limit"},
		{oldest, f.QueueOrder != core.NewestFirst, "the limiter serves the newest first"},
		{newest, f.QueueOrder == core.NewestFirst, "the limiter does not serve the newest first"},
		{fair, f.QueueOrder == core.FairShare && f.QueueLimit/f.piece() >= 2, "the order is not fair-share, or the queue is too short to tell"},
		{timed, f.Refill > 0, "permits do not come back with time"},
		{automatic, f.Refill > 0 && !f.Manual, "permits do not come back by themselves"},
		{manual, f.Manual, "the limiter is not replenished by hand"},
		{held, f.Holds && (!f.RealTime || f.Refill == 0), "leases hold nothing, or what they hold comes back in real time"},
		{unheld, !f.Holds, "leases hold permits"},
		{updates, f.Update != nil, "there is no Config.Update"},
		{cores, f.cores, "the limiter is not one of package core, nor a view of one"},
		{roams, f.Roams, "Config.Roams is not set"},
	} {
		if n&c.need != 0 && !c.met {
			return c.say
		}
	}
	return ""
}
