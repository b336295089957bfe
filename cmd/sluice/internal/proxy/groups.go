package proxy

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/netip"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// groups is how many limiters the keys share for which there is no room: enough that a crowd of them does not lock out
// the others, and few enough to cost next to nothing.
const groups = 1024

// grouped is a limiter for each key, and for the keys that find no room one for each group of keys.
type grouped struct{ keys, groups keyedLimiter }

// keyedLimiter is what a partition.Keyed is, whatever its keys.
type keyedLimiter interface {
	httplimit.Limiter
	partition.Refunder[*http.Request]
	partition.Settler[*http.Request]
}

// byGroup is on the leases that a group has granted.
var byGroup = core.NewMetadataKey[bool]("BY_GROUP")

func (g *grouped) TryAcquire(r *http.Request, permits int) core.Lease {
	l := g.keys.TryAcquire(r, permits)
	if !noRoom(l.Err()) {
		return l
	}
	if l = g.groups.TryAcquire(r, permits); l.Acquired() {
		l = l.With(byGroup.With(true))
	}
	return l
}

func (g *grouped) Acquire(ctx context.Context, r *http.Request, permits int) (core.Lease, error) {
	l, err := g.keys.Acquire(ctx, r, permits)
	if !noRoom(err) {
		return l, err
	}
	if l, err = g.groups.Acquire(ctx, r, permits); err == nil {
		l = l.With(byGroup.With(true))
	}
	return l, err
}

// Refund gives a lease back to the limiter that granted it.
func (g *grouped) Refund(r *http.Request, l core.Lease) { g.granter(l).Refund(r, l) }

// Settle corrects the cost of a lease in the limiter that granted it.
func (g *grouped) Settle(r *http.Request, l core.Lease, permits int) core.Lease {
	s := g.granter(l).Settle(r, l, permits)
	if ours, _ := byGroup.From(l); ours && s.Acquired() {
		s = s.With(byGroup.With(true))
	}
	return s
}

func (g *grouped) granter(l core.Lease) keyedLimiter {
	if ours, _ := byGroup.From(l); ours {
		return g.groups
	}
	return g.keys
}

// noRoom reports whether a request was rejected because its key found no room.
func noRoom(err error) bool {
	no, ok := errors.AsType[*core.RejectedError](err)
	return ok && no.Reason == "partition limit reached"
}

// groupOf returns the group of a key. Addresses of one network are in one group, so that a client with many addresses is
// not in many.
func groupOf(key any) uint16 {
	if p, ok := key.(netip.Prefix); ok && p.IsValid() {
		bits := 24
		if p.Addr().Is6() {
			bits = 48
		}
		key = netip.PrefixFrom(p.Addr(), min(bits, p.Bits())).Masked()
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, key)
	return uint16(h.Sum32() % groups)
}
