package limits

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/netip"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// groups is how many limiters the keys share for which there is no room: enough that a crowd of them does not lock out
// the others, and few enough to cost next to nothing.
const groups = 1024

// keyed holds the limiters of a limit with a key: one per key, and for the keys that find no room one per group of
// keys.
type keyed struct {
	keys   *partition.Keyed[*http.Request, string]
	groups *partition.Keyed[*http.Request, uint16]
}

// newKeyed returns the limiters of m, for up to most keys.
func newKeyed(m *Limit, most int, values func(*http.Request) []string) (*keyed, error) {
	keys, err := partition.New(partition.Options[*http.Request, string]{
		Name:          m.id.policy,
		Key:           func(r *http.Request) string { return config.JoinKey(values(r)) },
		New:           func(key string) (core.Limiter, error) { return m.follow(nameOf(key)) },
		MaxPartitions: most,
	})
	if err != nil {
		return nil, err
	}
	groups, err := partition.New(partition.Options[*http.Request, uint16]{
		Name: m.id.policy,
		Key:  func(r *http.Request) uint16 { return groupOf(values(r)) },
		New:  func(group uint16) (core.Limiter, error) { return m.follow(nameOfGroup(group)) },
	})
	return &keyed{keys, groups}, err
}

// nameOf returns what the limiter of a key is named on a Redis server, among those of its limit.
func nameOf(key string) string { return "=" + key }

func nameOfGroup(group uint16) string { return fmt.Sprint("~", group) }

// live yields the limiters that there are now.
func (l *keyed) live(yield func(*liveLimiter) bool) {
	_ = eachOf(l.keys, yield) && eachOf(l.groups, yield)
}

// eachOf calls yield for the limiters of keys while it returns true, and reports whether it always did.
func eachOf[K comparable](keys *partition.Keyed[*http.Request, K], yield func(*liveLimiter) bool) bool {
	for _, l := range keys.All() {
		if f, ok := l.(*liveLimiter); ok && !yield(f) {
			return false
		}
	}
	return true
}

// of returns the limiter of a key, or the one of its group, or nil if there is neither.
func (l *keyed) of(values []string) *liveLimiter {
	one, ok := l.keys.Get(config.JoinKey(values))
	if !ok {
		one, _ = l.groups.Get(groupOf(values))
	}
	f, _ := one.(*liveLimiter)
	return f
}

// names returns the names of the limiter of a key and of the one of its group.
func names(key []string) []string {
	return []string{nameOf(config.JoinKey(key)), nameOfGroup(groupOf(key))}
}

// granter is what a partition.Keyed is, whatever its keys.
type granter interface {
	partition.Refunder[*http.Request]
	partition.Settler[*http.Request]
}

// byGroup is on the leases that a group has granted.
var byGroup = core.NewMetadataKey[bool]("BY_GROUP")

func (l *keyed) TryAcquire(r *http.Request, permits int) core.Lease {
	lease := l.keys.TryAcquire(r, permits)
	if !errors.Is(lease.Err(), partition.ErrFull) {
		return lease
	}
	if lease = l.groups.TryAcquire(r, permits); lease.Acquired() {
		lease = lease.With(byGroup.With(true))
	}
	return lease
}

func (l *keyed) Acquire(ctx context.Context, r *http.Request, permits int) (core.Lease, error) {
	lease, err := l.keys.Acquire(ctx, r, permits)
	if !errors.Is(err, partition.ErrFull) {
		return lease, err
	}
	if lease, err = l.groups.Acquire(ctx, r, permits); err == nil {
		lease = lease.With(byGroup.With(true))
	}
	return lease, err
}

// Refund gives a lease back to the limiter that granted it.
func (l *keyed) Refund(r *http.Request, lease core.Lease) { l.granter(lease).Refund(r, lease) }

// Settle corrects the cost of a lease in the limiter that granted it.
func (l *keyed) Settle(r *http.Request, lease core.Lease, permits int) core.Lease {
	settled := l.granter(lease).Settle(r, lease, permits)
	if ours, _ := byGroup.From(lease); ours && settled.Acquired() {
		settled = settled.With(byGroup.With(true))
	}
	return settled
}

func (l *keyed) granter(lease core.Lease) granter {
	if ours, _ := byGroup.From(lease); ours {
		return l.groups
	}
	return l.keys
}

// groupOf returns the group of a key. Addresses of one network are in one group, so that a client with many addresses is
// not in many.
func groupOf(key []string) uint16 {
	text := config.JoinKey(key)
	if n, err := config.ParseNetwork(key[0]); len(key) == 1 && err == nil {
		bits := 24
		if n.Addr().Is6() {
			bits = 48
		}
		text = netip.PrefixFrom(n.Addr(), min(bits, n.Bits())).Masked().String()
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, text)
	return uint16(h.Sum32() % groups)
}
