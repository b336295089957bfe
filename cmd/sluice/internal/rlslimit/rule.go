package rlslimit

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/policy"
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

	config atomic.Pointer[ruleConfig]
	own    *limiters
	rest   *limiters // of groups of the other keys
}

// tally is what the rules of a descriptor have counted together. It stays when their limits change.
type tally struct {
	counts  counts
	details details
	logged  policy.Sometimes
}

type limiters = partition.Keyed[key, key]

// key identifies a limiter of a rule: requests with the same key share it. The key of a rule without values is the zero key.
type key struct {
	values   string // of the entries that have limiters of their own; a long text is replaced by its hash
	override units  // the limit that came with the request, if there is one
	group    bool   // values is the number of a group
}

// storeAs returns the name of the key on the store. No value is escaped to a text with a slash or an exclamation mark, so no
// client can choose the name of a group or of an override.
func (k key) storeAs() string {
	name := url.QueryEscape(k.values)
	if k.group {
		name = "!" + name
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

const (
	groups = 1024 // of the keys for which there is no room: enough that a crowd of keys does not lock out all others
)

// newRule returns a rule that has no limiters yet, or an error if its limit is not valid.
func newRule(domain string, c *ruleConfig, t *tally, keys int, shared redislimit.Options) (*rule, error) {
	r := &rule{domain: domain, tally: t, keys: keys, shared: shared}
	r.storeAs = strings.TrimSuffix(shared.Key, "/") + "/" + url.QueryEscape(domain) + "/" + url.QueryEscape(c.id) + "/"
	r.config.Store(c)
	most := groups
	if c.byLimit {
		most = max(groups, min(keys, 16*groups)) // of each limit
	}
	r.own, r.rest = r.limiters(keys), r.limiters(most)
	if c.unlimited || c.byLimit || c.limit.bans() {
		return r, nil
	}
	f, err := r.follow(key{})
	if err != nil {
		return nil, err
	}
	return r, f.Close()
}

func (r *rule) limiters(most int) *limiters {
	return core.Must(partition.New(partition.Options[key, key]{
		Name:          r.domain,
		Key:           func(k key) key { return k },
		New:           func(k key) (core.Limiter, error) { return r.follow(k) },
		MaxPartitions: most,
	}))
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
func groupOf(k key) key {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.values))
	return key{values: strconv.Itoa(int(h.Sum32() % groups)), override: k.override, group: true}
}

// follow makes a limiter for a key.
func (r *rule) follow(k key) (*follower, error) {
	config := r.config.Load()
	limit := config.limitOf(k)
	shared := r.shared
	if shared.Store != nil {
		shared.Key = r.storeAs + k.storeAs()
		if shared.Prefetch == 0 {
			shared.Prefetch = limit.prefetch()
		}
	}
	l, err := limit.make(r.domain, shared)
	if err != nil {
		return nil, err
	}
	f := &follower{limiter: l, rule: r, key: k}
	f.config.Store(config)
	return f, nil
}

// of returns the limiters that have that of a key.
func (r *rule) of(k key) *limiters {
	if k.group {
		return r.rest
	}
	return r.own
}

// tryAcquire takes permits for a key. It returns the key of the limiter, which is that of a group if there is no room for another
// key.
func (r *rule) tryAcquire(k key, n int) (core.Lease, key) {
	if l := r.own.TryAcquire(k, n); !errors.Is(l.Err(), partition.ErrFull) {
		return l, k
	}
	k = groupOf(k)
	return r.rest.TryAcquire(k, n), k
}

// acquire takes permits for a key as tryAcquire does, but a call of the store ends with ctx. To look takes nothing, and may end later.
func (r *rule) acquire(ctx context.Context, k key, n int) (core.Lease, key) {
	if r.shared.Store == nil || n == 0 {
		return r.tryAcquire(k, n)
	}
	l, err := r.own.Acquire(ctx, k, n)
	if errors.Is(err, partition.ErrFull) {
		k = groupOf(k)
		l, _ = r.rest.Acquire(ctx, k, n)
	}
	return l, k
}

// limiterOf returns the limiter of a key, or nil if it has none yet.
func (r *rule) limiterOf(k key) *follower {
	l, ok := r.own.Get(k)
	if !ok {
		l, _ = r.rest.Get(groupOf(k))
	}
	f, _ := l.(*follower)
	return f
}

// isUsedUp reports whether this process knows that a key has fewer permits left.
func (r *rule) isUsedUp(k key, permits int) bool {
	f := r.limiterOf(k)
	if f == nil {
		return false
	}
	m := f.memory.Load()
	return m != nil && m.rejected > 0 && permits >= m.rejected && time.Now().Before(m.until)
}

// known returns what this process knows a key to have left of a limit, and when it is reset.
func (r *rule) known(k key, most int) (left int, reset time.Duration) {
	f := r.limiterOf(k)
	if f == nil {
		return most, 0
	}
	m := f.memory.Load()
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
	l, _ := r.of(k).Get(k)
	if f, ok := l.(*follower); ok {
		if m := f.memory.Load(); m != nil {
			f.memory.Store(&memory{left: m.left + n, fullAt: m.fullAt})
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
		if left == 0 || r.shared.Store == nil {
			l = r.of(k).TryAcquire(k, left) // 0 looks
		} else {
			l, _ = r.of(k).Acquire(ctx, k, left)
		}
		if l.Acquired() && left > 0 || errors.Is(l.Err(), redislimit.ErrStore) {
			break
		}
	}
	return l
}

// countsOf returns the counts of a name with values, or those of the rule if it has too many names.
func (r *rule) countsOf(name string) *counts {
	if c := r.details.of(name, r.keys, &r.counts); c != nil {
		return c
	}
	return &r.counts
}

func (r *rule) close() {
	_ = r.own.Close()
	_ = r.rest.Close()
}

// follower is a limiter that follows the configuration of its rule, also if that changes while it is made.
type follower struct {
	limiter

	rule   *rule
	key    key
	mu     sync.Mutex // one update at a time
	config atomic.Pointer[ruleConfig]
	memory atomic.Pointer[memory] // nil: nothing that a request would want to know
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
func (f *follower) note(permits int, l core.Lease) core.Lease {
	if l.Acquired() && f.rule.shared.Store == nil {
		if f.memory.Load() != nil {
			f.memory.Store(nil)
		}
		return l // what it has left need not be remembered
	}
	now, m := time.Now(), new(memory)
	left, known := core.Remaining.From(l)
	if !known {
		return l // it did not decide
	}
	reset, _ := core.ResetAfter.From(l)
	m.left, m.fullAt = left, now.Add(reset)
	if retry, ok := core.RetryAfter.From(l); ok && !l.Acquired() {
		m.rejected, m.until = max(permits, 1), now.Add(min(retry, rememberFor))
	}
	f.memory.Store(m)
	return l
}

// TryAcquire takes permits by the current limit.
func (f *follower) TryAcquire(permits int) core.Lease {
	if f.config.Load() != f.rule.config.Load() {
		f.catchUp()
	}
	return f.note(permits, f.limiter.TryAcquire(permits))
}

// Acquire is TryAcquire: no limiter has a queue. It ends with ctx.
func (f *follower) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if f.config.Load() != f.rule.config.Load() {
		f.catchUp()
	}
	l, err := f.limiter.Acquire(ctx, permits)
	return f.note(permits, l), err
}

func (f *follower) catchUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, is := f.config.Load(), f.rule.config.Load()
	if l := is.limitOf(f.key); l != was.limitOf(f.key) {
		// The kind is the same and the limit is valid, so the only error left is that the limiter is closed.
		_ = l.update(f.limiter, f.rule.domain)
	}
	f.config.Store(is)
	f.memory.Store(nil)
}
