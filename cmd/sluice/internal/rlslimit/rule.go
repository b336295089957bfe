package rlslimit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/keyed"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
)

// rule is a limit of a descriptor in use. It has a limiter per key. It lives as long as each next Config has it, even with another limit.
type rule struct {
	domain  string
	keys    int // keys that have limiters of their own
	shared  redislimit.Options
	storeAs string // the prefix of the names of its limiters on the store
	*tally

	config   atomic.Pointer[ruleConfig]
	limiters *partition.Keyed[key, key] // each is a *limiter with the limit of config
	turns    atomic.Int64               // the Unix time of the next turn; 0: no window is of several months
}

// tally is what the rules of a descriptor have counted together. It stays when their limits change.
type tally struct {
	counts  counts
	details atomic.Pointer[details] // nil if none were wanted yet
	logged  service.Seldom
}

// key identifies a limiter of a rule: requests with the same key share it. The key of a rule without values is the zero key.
type key struct {
	values   string // values of the entries that have limiters of their own; a long text is replaced by its hash
	override units  // the limit that came with the request, if there is one
	group    int    // number of a group, from 1 on, in place of values
}

// storeAs returns the name of the key on the store. No value is escaped to a text with a slash or an exclamation mark, so no
// client can choose the name of a group or of an override.
func (k key) storeAs() string {
	name := url.QueryEscape(k.values)
	if k.group > 0 {
		name = fmt.Sprintf("!%d", k.group)
	}
	if o := k.override; o != (units{}) {
		return fmt.Sprintf("%d/%d/%d/%s", o.requests, o.multiplier, o.unit, name)
	}
	return name
}

// counts are the hits of a rule since it exists, by decision. A request of 0 hits does not count.
type counts struct {
	granted, rejected atomic.Uint64
	shadowed          atomic.Uint64 // over the limit, and let through: shadow_mode and quota_mode
	returned          atomic.Uint64
	undecided         atomic.Uint64 // requests that the store did not decide
}

// newRule returns a rule that has no limiters yet, or an error if its limit is not valid.
func newRule(domain string, c *ruleConfig, t *tally, keys int, shared redislimit.Options) (*rule, error) {
	r := &rule{domain: domain, tally: t, keys: keys, shared: shared}
	r.storeAs = strings.TrimSuffix(shared.Key, "/") + "/" + url.QueryEscape(domain) + "/" + url.QueryEscape(c.id) + "/"
	r.config.Store(c)
	r.limiters = core.Must(partition.New(partition.Options[key, key]{
		Name:          domain,
		Key:           func(k key) key { return k },
		Update:        r.update,
		Group:         groupOf,
		MaxPartitions: keys,
	}))
	err := r.check(c)
	return r, err
}

// check returns an error if no limiter can have the limit of c.
func (r *rule) check(c *ruleConfig) error {
	if c.unlimited || c.byLimit || c.limit.bans() {
		return nil
	}
	l, err := r.newLimiter(c, key{})
	if err != nil {
		return err
	}
	return l.Close()
}

// follow applies another configuration of the rule, whose limit is of the same kind and was checked.
func (r *rule) follow(c *ruleConfig) {
	if was := r.config.Swap(c); was.limit != c.limit {
		_ = r.limiters.Refresh() // no error, because of the check
	}
}

// limitOf returns the limit of a key.
func (rc *ruleConfig) limitOf(k key) allowance {
	if !rc.byLimit {
		return rc.limit
	}
	l, _ := k.override.allowance() // the request's decision has checked it
	return l
}

// groupOf returns the key of the group that a key is in.
func groupOf(k key) key { return key{override: k.override, group: keyed.Group(k.values)} }

// update returns the limiter of a key under the current limit. now is the limiter that the key has, if any.
func (r *rule) update(k key, now core.Limiter) (core.Limiter, error) {
	c := r.config.Load()
	l, ok := now.(*limiter)
	if !ok {
		return r.newLimiter(c, k)
	}
	o, err := c.limitOf(k).options(r.domain)
	if err != nil {
		return nil, err
	}
	err = keyed.Apply(l.rateLimiter, o)
	l.memory.Store(nil)
	return l, err
}

// newLimiter returns a limiter for a key under a configuration of the rule.
func (r *rule) newLimiter(c *ruleConfig, k key) (*limiter, error) {
	limit := c.limitOf(k)
	shared := r.shared
	if shared.Store != nil {
		shared.Key = r.storeAs + k.storeAs()
		if shared.Prefetch == 0 {
			shared.Prefetch = limit.prefetch()
		}
	}
	made, err := limit.make(r.domain, shared)
	if err != nil {
		return nil, err
	}
	if limit.months() > 0 {
		r.turns.CompareAndSwap(0, nextMonth())
	}
	return &limiter{rateLimiter: made, stored: shared.Store != nil}, nil
}

// turn moves limiters on to other windows of several months in the first request of each month.
func (r *rule) turn() {
	at := r.turns.Load()
	if at == 0 || time.Now().Unix() < at || !r.turns.CompareAndSwap(at, nextMonth()) {
		return
	}
	refresh := func() { _ = r.limiters.Refresh() } // no error, because only times change
	if r.shared.Store == nil {
		refresh()
		return
	}
	go refresh() // calls the store for each limiter, which no request waits for
}

// nextMonth returns the Unix time at which the next month starts.
func nextMonth() int64 {
	_, end := core.Monthly(1, nil).Bounds(time.Now())
	return end.Unix()
}

// acquire takes permits for a key. A call of the store ends with ctx. To look takes nothing, and may end later.
func (r *rule) acquire(ctx context.Context, k key, n int) core.Lease {
	r.turn()
	if r.shared.Store == nil || n == 0 {
		return r.limiters.TryAcquire(k, n)
	}
	l, _ := r.limiters.Acquire(ctx, k, n)
	return l
}

// limiterOf returns the limiter of a key or of its group, or nil if there is none yet.
func (r *rule) limiterOf(k key) *limiter {
	l, _ := keyed.Live(r.limiters, k).(*limiter)
	return l
}

// isUsedUp reports whether this process knows that a key has fewer permits left.
func (r *rule) isUsedUp(k key, permits int) bool {
	l := r.limiterOf(k)
	if l == nil {
		return false
	}
	m := l.memory.Load()
	return m != nil && m.rejected > 0 && permits >= m.rejected && time.Now().Before(m.until)
}

// known returns what this process knows a key to have left of a limit, and when it is reset.
func (r *rule) known(k key, most int) (left int, reset time.Duration) {
	l := r.limiterOf(k)
	if l == nil {
		return most, 0
	}
	m := l.memory.Load()
	if m == nil || !time.Now().Before(m.fullAt) {
		return most, 0
	}
	return m.left, time.Until(m.fullAt)
}

// refund returns the permits of a lease.
func (r *rule) refund(k key, l core.Lease) {
	if l.Acquired() && l.Permits() > 0 {
		l.Refund()
		r.returned(k, l.Permits())
	}
}

// returned remembers that permits went back to the limiter of a key.
func (r *rule) returned(k key, n int) {
	if l := r.limiterOf(k); l != nil {
		if m := l.memory.Load(); m != nil {
			l.memory.Store(&memory{left: m.left + n, fullAt: m.fullAt})
		}
	}
}

// drain takes the rest of a limit that has rejected several permits. A client may look first, and charge at the end whatever the
// response is; it then finds the limit used up. The lease has the rest, or tells when the limiter is reset.
func (r *rule) drain(ctx context.Context, k key, l core.Lease) core.Lease {
	for range 8 { // others take, too
		left, known := core.Remaining.From(l)
		if known && left <= 0 {
			break
		}
		l = r.acquire(ctx, k, left) // 0 looks
		if l.Acquired() && left > 0 || errors.Is(l.Err(), redislimit.ErrStore) {
			break
		}
	}
	return l
}

// countsOf returns the counts of a name with values, or those of the rule if it has too many names.
func (r *rule) countsOf(name string) *counts {
	if all := r.details.Load(); all != nil && all.TryAcquire(name, 0).Acquired() {
		if l, ok := all.Get(name); ok {
			return &l.(*detail).counts
		}
	}
	return &r.counts
}

// limiter is a limiter of a rule that remembers what its last replies said.
type limiter struct {
	rateLimiter

	stored bool                   // processes share it
	memory atomic.Pointer[memory] // nil if there is nothing that a request could use
}

// memory is what the last replies of a limiter said.
type memory struct {
	left     int
	fullAt   time.Time // when the limiter is reset
	rejected int       // permits, at least 1, of a request that was rejected; 0: the last one was not
	until    time.Time // when as many come
}

// rememberFor is how long a rejection is known at most: others may return permits.
const rememberFor = time.Minute

// note remembers what a lease says.
func (l *limiter) note(permits int, lease core.Lease) core.Lease {
	if lease.Acquired() && !l.stored {
		if l.memory.Load() != nil {
			l.memory.Store(nil)
		}
		return lease // what it has left need not be remembered
	}
	now, m := time.Now(), new(memory)
	left, known := core.Remaining.From(lease)
	if !known {
		return lease // it did not decide
	}
	reset, _ := core.ResetAfter.From(lease)
	m.left, m.fullAt = left, now.Add(reset)
	if retry, ok := core.RetryAfter.From(lease); ok && !lease.Acquired() {
		m.rejected, m.until = max(permits, 1), now.Add(min(retry, rememberFor))
	}
	l.memory.Store(m)
	return lease
}

// TryAcquire takes permits.
func (l *limiter) TryAcquire(permits int) core.Lease {
	return l.note(permits, l.rateLimiter.TryAcquire(permits))
}

// Acquire is TryAcquire: no limiter has a queue. It ends with ctx.
func (l *limiter) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	lease, err := l.rateLimiter.Acquire(ctx, permits)
	return l.note(permits, lease), err
}

// reset resets the limiter. It returns an error if the store has not confirmed that.
func (l *limiter) reset() error {
	l.memory.Store(nil)
	_, err := keyed.Reset(l.rateLimiter)
	return err
}
