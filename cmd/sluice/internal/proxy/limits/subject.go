package limits

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// Subject is what limits are about: the requests of a policy, the bytes of their bodies in one direction, or connections. Without a
// key it has one limiter. Otherwise it is a [partition.Limiter]: it has a limiter per key, and for the keys that find no room one
// per group of keys. The limiters follow its terms, which may change.
type Subject struct {
	identity

	clients  *Keys
	store    *shared.Store // nil: the limiters are this process's own
	terms    atomic.Pointer[terms]
	one      *live     // without a key
	keys     *limiters // with a key
	groups   *limiters // of keys
	rejected atomic.Uint64
}

// identity tells subjects apart. A subject that stays in the file keeps what its limiters have granted.
type identity struct {
	Name string // of the policy, or of the limit on connections
	what string
	key  string // as the file has it
}

// What a Subject is.
const (
	requests    = "requests"
	connections = "connections"
	upload      = "upload"
	download    = "download"
)

// terms are the limits of a Subject in one file.
type terms struct {
	key       config.Key
	limits    []config.Limit
	overrides config.Overrides
}

// all returns all limits, also those of overrides.
func (t *terms) all() []config.Limit {
	all := slices.Clone(t.limits)
	for _, o := range t.overrides.All {
		all = append(all, o.Limits...)
	}
	return all
}

// slot is what a limiter is for: all requests of a Subject, a key of them or a group of keys.
type slot struct {
	subject  *Subject
	override string // its name; "": none
	key      string // that of the requests
	group    int    // from 1 on, in place of a key
}

// limits returns the limits of the slot. A request may come with an override that is no longer in the file.
func (k slot) limits(t *terms) []config.Limit {
	if limits, ok := t.overrides.Of(k.override); ok {
		return limits
	}
	return t.limits
}

// isUnlimited reports whether no limiter is needed.
func (k slot) isUnlimited() bool {
	limited := func(l config.Limit) bool { return l.Kind != spec.Unlimited }
	return !slices.ContainsFunc(k.limits(k.subject.terms.Load()), limited)
}

// limiters are those of a Subject with a key.
type limiters = partition.Keyed[slot, slot]

// newSubject returns a Subject with some terms, for which limiters can be made.
func newSubject(id identity, clients *Keys, store *shared.Store, t *terms) *Subject {
	s := &Subject{identity: id, clients: clients, store: store}
	s.terms.Store(t)
	if len(t.key) == 0 {
		s.one = newLive(slot{subject: s})
		return s
	}
	o := partition.Options[slot, slot]{
		Name:          id.Name,
		MaxPartitions: clients.max,
		Key:           func(k slot) slot { return k },
		New:           func(k slot) (core.Limiter, error) { return newLive(k), nil },
	}
	s.keys = core.Must(partition.New(o))
	o.MaxPartitions = 0
	s.groups = core.Must(partition.New(o))
	return s
}

// Key returns the key as the file has it; "": none.
func (s *Subject) Key() string { return s.key }

// Limit returns the only limit of connections.
func (s *Subject) Limit() string { return s.terms.Load().limits[0].String() }

// Limiter returns what decides about requests.
func (s *Subject) Limiter() httplimit.Limiter {
	if s.one == nil {
		return s
	}
	return partition.Shared[*http.Request](s.one)
}

// For returns the limiter of a request, or of a connection. Those of a subject without a key share one, and its bandwidth in
// equal parts.
func (s *Subject) For(r *http.Request) core.Limiter {
	if s.one == nil {
		return partition.For[*http.Request](s, r)
	}
	return s.one
}

// live yields the limiters that there are now.
func (s *Subject) live(yield func(*live) bool) {
	if s.one != nil {
		yield(s.one)
		return
	}
	for _, all := range []*limiters{s.keys, s.groups} {
		for _, l := range all.All() {
			if !yield(l.(*live)) {
				return
			}
		}
	}
}

// slot returns what the limiter of a key is for.
func (s *Subject) slot(key []string) slot {
	k := slot{subject: s, key: config.JoinKey(key)}
	t := s.terms.Load()
	if i, ok := t.overrides.Find(key); ok {
		k.override = t.overrides.All[i].Name
	}
	return k
}

// slotOf returns what the limiter of a request is for.
func (s *Subject) slotOf(r *http.Request) slot {
	return s.slot(s.clients.values(r, s.terms.Load().key))
}

// of returns the live limiter of a key, or the one of its group, or nil if there is neither.
func (s *Subject) of(key []string) *live {
	if s.one != nil {
		return s.one
	}
	k := s.slot(key)
	one, ok := s.keys.Get(k)
	if !ok {
		one, _ = s.groups.Get(k.ofGroup())
	}
	f, _ := one.(*live)
	return f
}

// TryAcquire implements [partition.Limiter].
func (s *Subject) TryAcquire(r *http.Request, permits int) core.Lease {
	k := s.slotOf(r)
	if k.isUnlimited() {
		return core.Unlimited().TryAcquire(permits)
	}
	lease := s.keys.TryAcquire(k, permits)
	if errors.Is(lease.Err(), partition.ErrFull) {
		return s.groups.TryAcquire(k.ofGroup(), permits)
	}
	return lease
}

// Acquire implements [partition.Limiter].
func (s *Subject) Acquire(ctx context.Context, r *http.Request, permits int) (core.Lease, error) {
	k := s.slotOf(r)
	if k.isUnlimited() {
		return core.Unlimited().Acquire(ctx, permits)
	}
	lease, err := s.keys.Acquire(ctx, k, permits)
	if errors.Is(err, partition.ErrFull) {
		return s.groups.Acquire(ctx, k.ofGroup(), permits)
	}
	return lease, err
}

// Refund gives a lease back to the limiter that granted it: the other one ignores it.
func (s *Subject) Refund(r *http.Request, lease core.Lease) {
	k := s.slotOf(r)
	s.keys.Refund(k, lease)
	s.groups.Refund(k.ofGroup(), lease)
}

// Settle corrects the cost of a lease in the limiter that granted it.
func (s *Subject) Settle(r *http.Request, lease core.Lease, permits int) core.Lease {
	k := s.slotOf(r)
	return s.groups.Settle(k.ofGroup(), s.keys.Settle(k, lease, permits), permits)
}

// groups is how many limiters the keys of a Subject share for which there is no room: enough that a crowd of them does not
// lock out the others, and few enough to cost next to nothing.
const groups = 1024

// ofGroup returns the slot of the group of a key. Addresses of one network are in one group, so that a client with many addresses
// is not in many.
func (k slot) ofGroup() slot {
	text := k.key
	if k.subject.key == string(config.KeyIP) {
		if n, err := config.ParseNetwork(text); err == nil {
			bits := 24
			if n.Addr().Is6() {
				bits = 48
			}
			text = netip.PrefixFrom(n.Addr(), bits).Masked().String()
		}
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, text)
	k.key, k.group = "", 1+int(h.Sum32()%groups)
	return k
}
