package limitertest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

// both is the reference for a chain: slots first, then a rate, of which each settles its part.
type both struct {
	slots *ledger
	rate  rateLedger
}

// parts is what a lease of both stands for.
type parts struct {
	of         *both
	slot, rate core.Lease

	mu    sync.Mutex
	spent bool
}

var partsOf = core.NewMetadataKey[*parts]("BOTH")

func newBoth(back comesBack) *both {
	return &both{
		slots: newLedger(byRelease, queue, ledgerFaults{}),
		rate:  rateLedger{newLedger(back, queue, ledgerFaults{})},
	}
}

func (b *both) Available() int { return min(b.slots.Available(), b.rate.Available()) }

func (b *both) TryAcquire(n int) core.Lease {
	slot := b.slots.TryAcquire(n)
	if !slot.Acquired() {
		return slot
	}
	rate := b.rate.TryAcquire(n)
	if !rate.Acquired() {
		slot.Release()
		return rate
	}
	return b.join(n, slot, rate)
}

func (b *both) Acquire(ctx context.Context, n int) (core.Lease, error) {
	slot, err := b.slots.Acquire(ctx, n)
	if err != nil {
		return slot, err
	}
	rate, err := b.rate.Acquire(ctx, n)
	if err != nil {
		slot.Release()
		return rate, err
	}
	return b.join(n, slot, rate), nil
}

func (b *both) join(n int, slot, rate core.Lease, metadata ...core.Metadata) core.Lease {
	p := &parts{of: b, slot: slot, rate: rate}
	return core.Grant(n, func() {
		if p.spend() {
			p.slot.Release()
		}
	}, append(metadata, partsOf.With(p))...)
}

// spend reports whether the caller is the first to release or to settle.
func (p *parts) spend() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.spent
	p.spent = true
	return first
}

func (b *both) Settle(l core.Lease, n int) core.Lease {
	p, ok := partsOf.From(l)
	if !ok || p.of != b || !p.spend() {
		return l
	}
	n = max(n, 0)
	slot, rate := b.slots.Settle(p.slot, n), b.rate.Settle(p.rate, n)
	var metadata []core.Metadata
	for name, value := range l.Metadata() {
		if name != partsOf.Name() {
			metadata = append(metadata, core.NewMetadataKey[any](name).With(value))
		}
	}
	return b.join(n, slot, rate, metadata...)
}

func (b *both) Refund(l core.Lease) { b.Settle(l, 0) }
func (b *both) Reset()              { b.rate.Reset() }

func (b *both) Close() error {
	_ = b.slots.Close()
	return b.rate.Close()
}

func TestBothKindsOfLedgersConform(t *testing.T) {
	for name, c := range map[string]struct {
		back   comesBack
		refill time.Duration
		skip   []string
	}{
		"tokens": {byTokens, 30 * time.Second, nil},
		"window": {byWindow, time.Minute, []string{"retry after counts the queue ahead"}},
	} {
		t.Run(name, func(t *testing.T) {
			limitertest.Run(t, limitertest.Config{
				New:   func() core.Limiter { return newBoth(c.back) },
				Limit: limit, QueueLimit: queue, Refill: c.refill, Holds: true,
				Skip: append(c.skip, "a hopeless deadline is rejected at once"),
			})
		})
	}
}
