package limits

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/keyed"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/spec"
)

// Subject is what limits are about: the requests of a policy, the bytes of their bodies in one direction, or connections. It has a
// limiter per key, which follows its terms when they change. Without a key there is one, for the zero slot.
type Subject struct {
	identity

	clients  *Keys
	store    *shared.Store // nil means that the limiters are this process's own
	terms    atomic.Pointer[terms]
	limiters *partition.Keyed[slot, slot]
	rejected atomic.Uint64

	mu   sync.Mutex
	gone []core.Limiter // limiters that an update has replaced, and that are not closed yet
}

// identity tells subjects apart. A subject that stays in the file keeps what its limiters have granted.
type identity struct {
	Name string // name of the policy, or of the limit on connections
	what string
	key  string // key as the file has it
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

// of returns the limits for a slot. A request may come with an override that is no longer in the file.
func (t *terms) of(k slot) spec.Limits {
	limits, ok := t.overrides.Of(k.override)
	if !ok {
		limits = t.limits
	}
	var limited spec.Limits
	for _, l := range limits {
		if l.Kind != spec.Unlimited {
			limited = append(limited, l.Limit)
		}
	}
	return limited
}

// same reports whether u has the same limits for each slot.
func (t *terms) same(u *terms) bool {
	equal := func(a, b []config.Limit) bool {
		return slices.EqualFunc(a, b, func(a, b config.Limit) bool { return a.Limit == b.Limit })
	}
	return equal(t.limits, u.limits) && slices.EqualFunc(t.overrides.All, u.overrides.All, func(a, b config.Override) bool {
		return a.Name == b.Name && equal(a.Limits, b.Limits)
	})
}

// slot is what a limiter is for: all requests of a Subject, a key of them or a group of keys.
type slot struct {
	override string // its name; "": none
	key      string // key of the requests
	group    int    // number of a group, from 1 on, in place of a key
}

// newSubject returns a Subject with some terms, for which limiters can be made.
func newSubject(id identity, clients *Keys, store *shared.Store, t *terms) *Subject {
	s := &Subject{identity: id, clients: clients, store: store}
	s.terms.Store(t)
	o := partition.Options[slot, slot]{
		Name:          id.Name,
		MaxPartitions: clients.max,
		Key:           func(k slot) slot { return k },
		Group:         s.groupOf,
		Update:        s.update,
		OnEvict:       func(_ slot, l core.Limiter) { closeParts(l) },
	}
	if len(t.key) == 0 {
		o.IdleTimeout = math.MaxInt64 // its statistics are those of the policy
	}
	s.limiters = core.Must(partition.New(o))
	return s
}

// apply has all limiters follow other terms, and the requests that wait in them.
func (s *Subject) apply(t *terms) {
	before := s.terms.Swap(t)
	if before.same(t) {
		return
	}
	_ = s.limiters.Refresh() // no error: a limiter for each of the limits was made already
	s.mu.Lock()
	gone := s.gone
	s.gone = nil
	s.mu.Unlock()
	for _, l := range gone {
		closeParts(l)
	}
}

// close closes all limiters.
func (s *Subject) close() {
	var all []core.Limiter
	for _, l := range s.limiters.All() {
		all = append(all, l)
	}
	_ = s.limiters.Close()
	for _, l := range all {
		closeParts(l)
	}
}

// Key returns the key as the file has it; "": none.
func (s *Subject) Key() string { return s.key }

// Limit returns the limits without overrides, as a text.
func (s *Subject) Limit() string { return s.terms.Load().of(slot{}).String() }

// Limiter returns what decides about requests.
func (s *Subject) Limiter() httplimit.Limiter { return partition.Translate(s.limiters, s.slotOf) }

// For returns the limiter of a request, or of a connection.
func (s *Subject) For(r *http.Request) core.Limiter { return partition.For(s.limiters, s.slotOf(r)) }

// slotOf returns what the limiter of a request is for.
func (s *Subject) slotOf(r *http.Request) slot {
	t := s.terms.Load()
	if len(t.key) == 0 {
		return slot{}
	}
	read := s.clients.read(r, t.key)
	return s.slot(t, read.values, read.joined)
}

// slot returns what the limiter of a key is for. Keys without a limit share one that is none.
func (s *Subject) slot(t *terms, values []string, joined string) (k slot) {
	if i, ok := t.overrides.Find(values); ok {
		k.override = t.overrides.All[i].Name
	}
	if len(t.of(k)) > 0 {
		k.key = joined
	}
	return k
}

// of returns the live limiter of a key, or the one of its group, or nil if there is neither.
func (s *Subject) of(values []string) core.Limiter {
	return keyed.Live(s.limiters, s.slot(s.terms.Load(), values, config.JoinKey(values)))
}

// groupOf returns the slot of the group of a key. Addresses of one network are in one group, so that a client with many addresses
// is not in many.
func (s *Subject) groupOf(k slot) slot {
	text := k.key
	if s.key == string(config.KeyIP) {
		if n, err := config.ParseNetwork(text); err == nil {
			bits := 24
			if n.Addr().Is6() {
				bits = 48
			}
			text = netip.PrefixFrom(n.Addr(), bits).Masked().String()
		}
	}
	k.key, k.group = "", keyed.Group(text)
	return k
}

// update returns the limiter of a slot under the present terms. The parts of it that stay keep what they have granted.
func (s *Subject) update(k slot, now core.Limiter) (core.Limiter, error) {
	limits := s.terms.Load().of(k)
	if s.store == nil {
		return limits.Apply(now, s.Name)
	}
	nth := make(map[spec.Kind]int)
	var parts []core.Limiter
	for _, l := range limits {
		nth[l.Kind]++
		p, err := s.part(k, l, nth[l.Kind], now)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	old := partsOf(now)
	if now != nil && len(parts) > 0 && slices.Equal(parts, old) {
		return now, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range old {
		if !slices.Contains(parts, p) {
			s.gone = append(s.gone, p)
		}
	}
	switch len(parts) {
	case 0:
		return core.Unlimited(), nil
	case 1:
		return parts[0], nil
	}
	return core.Chain(parts...)
}

// part is a limiter on the Redis server. It stays for a limit of its kind with its number, as for a proxy that starts with the
// present file.
type part struct {
	*redislimit.Limiter

	limit spec.Limit
	nth   int          // number of its kind
	local core.Limiter // decides while the server is unreachable; nil if none does
	name  string       // on the server
}

// part returns the limiter for one of the limits of a slot: one of those in now, or a new one.
func (s *Subject) part(k slot, l spec.Limit, nth int, now core.Limiter) (core.Limiter, error) {
	for _, old := range partsOf(now) {
		if p, ok := old.(*part); ok && p.limit.Kind == l.Kind && p.nth == nth {
			err := p.update(l, s.Name)
			return p, err
		}
	}
	p := &part{limit: l, nth: nth, name: s.onServer(k, l.Kind, nth)}
	o := redislimit.Options{Key: p.name}
	if s.what != requests { // a body that has started is not cut off because Redis is away
		var err error
		if p.local, err = l.New(s.Name); err != nil {
			return nil, err
		}
		o.Unavailable, o.Local = redislimit.UseLocal, p.local
	}
	made, err := s.store.New(l, s.Name, o)
	if on, ok := made.(*redislimit.Limiter); ok && err == nil {
		p.Limiter = on
		return p, nil
	}
	return made, err // it needs no server
}

// update applies a limit of the same kind. The limiter calls the server then, and remembers nothing older.
func (p *part) update(l spec.Limit, name string) error {
	p.limit = l
	o, err := l.Options(name)
	if err == nil {
		err = p.Apply(o)
	}
	if p.local != nil {
		err = cmp.Or(err, l.Update(p.local))
	}
	return err
}

// onServer returns what the limiter of a slot is named on a Redis server. The name has the whole identity, so that a proxy whose
// file has changed and one that starts with that file share the limiter.
func (s *Subject) onServer(k slot, kind spec.Kind, nth int) string {
	name := fmt.Sprintf("%s/%s/%s-%d/%s", s.Name, s.what, kind, nth, s.key)
	if k.override != "" {
		name += "/" + url.QueryEscape(k.override)
	}
	switch {
	case k.group > 0:
		name += "~" + strconv.Itoa(k.group)
	case s.key != "":
		name += "=" + k.key
	}
	return "sluice/" + url.QueryEscape(name) // without characters that patterns and hash slots take for special
}

// partsOf returns the limiters that a limiter of update's asks; none for nil.
func partsOf(l core.Limiter) []core.Limiter {
	if c, ok := l.(*core.ChainedLimiter); ok {
		return c.Limiters()
	}
	if l == nil {
		return nil
	}
	return []core.Limiter{l}
}

func closeParts(l core.Limiter) {
	for _, p := range partsOf(l) {
		if c, ok := p.(io.Closer); ok {
			_ = c.Close()
		}
	}
}

// reset resets a part. It reports false for a concurrency limiter, whose permits stay held.
func reset(p core.Limiter) (bool, error) {
	if on, ok := p.(*part); ok && on.limit.Kind == spec.Concurrency {
		return false, nil
	}
	return keyed.Reset(p)
}
