package rlslimit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/spec"
)

// rule is a rule while it is in use: a limiter for each of its keys. A key is what the values of a request are that
// have limiters of their own; a rule without such values has one key, "". The rule lives as long as each next Config has
// it, whatever its limit is then.
type rule struct {
	domain string
	kind   spec.Kind // of all its limiters
	keys   int       // that have limiters of their own
	shared redislimit.StoreOptions
	onName string // of its limiters on the store
	counts counts

	made       time.Time
	fullUntil  atomic.Int64 // since made: until then there is no room for new keys
	overflowed atomic.Uint64

	terms atomic.Pointer[terms]
	own   *partition.Keyed[string, string]
	rest  *partition.Keyed[string, string] // limiters of groups of the other keys

	detailsLen atomic.Int64
	details    sync.Map // of names with values, as detailed_metric and value_to_metric want them, to *counts
	logged     policy.Seldom
}

// terms are what may change about a rule.
type terms struct {
	*ruleConfig

	current *ratelimit.RateLimitResponse_RateLimit
	byLimit bool // an override's: the limit is in the key
}

// counts are the hits of a rule since it exists, by what was decided about them; a look, of 0 hits, is none.
type counts struct {
	granted, rejected atomic.Uint64
	shadowed          atomic.Uint64 // over the limit, and let through: shadow_mode and quota_mode
	givenBack         atomic.Uint64
	unanswered        atomic.Uint64 // requests that the store did not decide
}

const (
	groups  = 1024 // of keys for which there is no room: enough that a crowd of them does not lock out all others
	longest = 200  // bytes of a key; of a longer one there is a hash

	// lookForRoom is how often room is looked for while there is none: each look visits several keys.
	lookForRoom = time.Millisecond
)

// newRule returns a rule that has no limiters yet.
func newRule(domain string, c *ruleConfig, keys int, shared redislimit.StoreOptions, byLimit bool) (*rule, error) {
	r := &rule{domain: domain, kind: c.limit.kind(), keys: keys, shared: shared, made: time.Now()}
	r.onName = strings.TrimSuffix(shared.Key+"/", "/") + url.QueryEscape(domain) + "/" + url.QueryEscape(c.id) + "/"
	r.terms.Store(newTerms(c, byLimit))
	most := groups
	if byLimit {
		most = max(groups, min(keys, 16*groups)) // of each limit
	}
	var err error
	if r.own, err = r.keyed(keys); err == nil {
		r.rest, err = r.keyed(most)
	}
	return r, err
}

func newTerms(c *ruleConfig, byLimit bool) *terms {
	t := &terms{ruleConfig: c, byLimit: byLimit}
	if !c.unlimited && !byLimit {
		t.current = c.limit.current(c.limitName)
	}
	return t
}

func (r *rule) keyed(most int) (*partition.Keyed[string, string], error) {
	return partition.New(partition.Options[string, string]{
		Name:          r.domain,
		Key:           func(key string) string { return key },
		New:           func(key string) (core.Limiter, error) { return r.follow(key) },
		MaxPartitions: most,
	})
}

// update puts new terms of the same kind in force, for live limiters and later ones.
func (r *rule) update(t *terms) {
	changed := r.terms.Load().limit != t.limit
	r.terms.Store(t)
	if changed {
		for _, f := range r.all {
			f.catchUp()
		}
	}
}

// all yields the live limiters by their keys.
func (r *rule) all(yield func(string, *follower) bool) {
	for _, k := range []*partition.Keyed[string, string]{r.own, r.rest} {
		for key, l := range k.All() {
			if f, ok := l.(*follower); ok && !yield(key, f) {
				return
			}
		}
	}
}

var _ iter.Seq2[string, *follower] = (*rule)(nil).all

// limitOf returns the limit of a key.
func (t *terms) limitOf(key string) allowance {
	if !t.byLimit {
		return t.limit
	}
	var l allowance
	_, _ = fmt.Sscanf(key, "%d/%d/%d/", &l.Requests, &l.Multiplier, (*int32)(&l.Unit))
	return l
}

// overrideKey returns the beginning of a key that says its limit.
func overrideKey(l allowance) string {
	return strconv.FormatUint(uint64(l.Requests), 10) + "/" + strconv.FormatUint(uint64(l.Multiplier), 10) + "/" + strconv.Itoa(int(l.Unit)) + "/"
}

// cut returns the beginning of a key that says its limit, and the rest.
func (t *terms) cut(key string) (limit, rest string) {
	if !t.byLimit {
		return "", key
	}
	at := 0
	for range 3 {
		at += strings.IndexByte(key[at:], '/') + 1
	}
	return key[:at], key[at:]
}

// groupOf returns the key of the group that a key is in.
func (r *rule) groupOf(key string) string {
	limit, rest := r.terms.Load().cut(key)
	h := fnv.New32a()
	_, _ = h.Write([]byte(rest))
	return limit + "~" + strconv.Itoa(int(h.Sum32()%groups))
}

// short returns a key, or a hash in place of a long one.
func short(key string) string {
	if len(key) <= longest {
		return key
	}
	h := sha256.Sum256([]byte(key))
	return "#" + string(h[:])
}

// follow makes a limiter for a key.
func (r *rule) follow(key string) (*follower, error) {
	t := r.terms.Load()
	shared := r.shared
	if shared.Store != nil {
		shared.Key = r.onName + url.QueryEscape(key)
		if shared.Prefetch == 0 {
			shared.Prefetch = t.limitOf(key).ahead()
		}
	}
	l, err := t.limitOf(key).make(r.domain, shared)
	if err != nil {
		return nil, err
	}
	f := &follower{limiter: l, rule: r, key: key}
	f.terms.Store(t)
	return f, nil
}

// tryAcquire takes permits for a key. It returns where the limiter that decided is, and its key there.
func (r *rule) tryAcquire(key string, n int) (core.Lease, *partition.Keyed[string, string], string) {
	now := time.Since(r.made)
	if _, live := r.own.Get(key); live || int64(now) >= r.fullUntil.Load() {
		l := r.own.TryAcquire(key, n)
		if !noRoom(l) {
			return l, r.own, key
		}
		r.fullUntil.Store(int64(now + lookForRoom))
	}
	r.overflowed.Add(1)
	key = r.groupOf(key)
	return r.rest.TryAcquire(key, n), r.rest, key
}

// noRoom reports whether a request was rejected because its key found no room.
func noRoom(l core.Lease) bool {
	if l.Acquired() {
		return false
	}
	var rejected *core.RejectedError
	return errors.As(l.Err(), &rejected) && rejected.Reason == "partition limit reached"
}

// countsOf returns the counts of a name with values, or those of the rule if it has too many names.
func (r *rule) countsOf(name string) *counts {
	if c, ok := r.details.Load(name); ok {
		return c.(*counts) //nolint:forcetypeassert // the map has nothing else
	}
	if r.detailsLen.Load() >= int64(r.keys) {
		return &r.counts
	}
	c, known := r.details.LoadOrStore(name, new(counts))
	if !known {
		r.detailsLen.Add(1)
	}
	return c.(*counts) //nolint:forcetypeassert // as above
}

// mayLog reports whether something may be logged about the rule: once a second.
func (r *rule) mayLog() bool {
	_, ok := r.logged.Lets(time.Second)
	return ok
}

func (r *rule) close() {
	_ = r.own.Close()
	_ = r.rest.Close()
}

// follower is a limiter that follows the terms of its rule, also if they change while it is made.
type follower struct {
	limiter

	rule  *rule
	key   string
	mu    sync.Mutex // one update at a time
	terms atomic.Pointer[terms]
}

// TryAcquire takes permits by the present limit.
func (f *follower) TryAcquire(permits int) core.Lease {
	f.catchUp()
	return f.limiter.TryAcquire(permits)
}

func (f *follower) catchUp() {
	if f.terms.Load() == f.rule.terms.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was, is := f.terms.Load(), f.rule.terms.Load()
	if l := is.limitOf(f.key); l != was.limitOf(f.key) {
		// The kind is the same and the limit is valid, so the only error left is that the limiter is closed.
		_ = l.update(f.limiter, f.rule.domain)
	}
	f.terms.Store(is)
}
