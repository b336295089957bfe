package meter

import (
	"math"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
)

// batch is a slice that a small call was granted because others wait too: what the call
// does not need is there for the next ones, for eagerWithin.
type batch struct {
	meter    *Meter
	lease    core.Lease
	size     int
	left     int
	spending bool // the slice on its way is of this batch
	timer    *time.Timer
	holding  *holding // bytes that passed and go on holding their permits; nil: there are none
}

// holding is a batch's lease, released when all bytes have let go of it and the batch has.
type holding struct {
	mu    sync.Mutex // guards what follows; a leaf
	lease core.Lease
	count int
}

// put makes the batch that of a new lease. The turn is held, so expire waits until then.
func (b *batch) put(lease core.Lease, size int) {
	b.lease, b.size, b.left, b.holding = lease, size, size, nil
	if b.timer == nil {
		// It must not run before the field is set: expire looks at it.
		b.timer = time.AfterFunc(math.MaxInt64, b.expire)
	}
	b.timer.Reset(eagerWithin)
}

// spend takes at most want bytes, and returns how many.
func (b *batch) spend(want int) int {
	n := min(want, b.left)
	b.left -= n
	b.spending = true
	return n
}

// settle takes back what did not pass.
func (b *batch) settle(unused int) {
	b.spending = false
	b.left += unused
	b.endIfSpent()
}

func (b *batch) endIfSpent() {
	switch {
	case b.left > 0:
	case b.holding != nil:
		b.timer.Stop()
		b.holding.release()
	default:
		b.timer.Stop()
		b.lease.Release()
	}
}

// keep returns a lease for the slice on its way.
func (b *batch) keep() core.Lease {
	b.spending = false
	if b.holding == nil {
		b.holding = &holding{lease: b.lease, count: 1} // the batch's own
	}
	h := b.holding
	h.mu.Lock()
	h.count++
	h.mu.Unlock()
	b.endIfSpent()
	return core.Grant(0, h.release)
}

// release lets go of the lease.
func (h *holding) release() {
	h.mu.Lock()
	h.count--
	last, lease := h.count == 0, h.lease
	h.mu.Unlock()
	if last {
		lease.Release()
	}
}

// replace has the bytes hold another lease.
func (h *holding) replace(lease core.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease = lease
}

// expire runs when the batch has been there for long enough. If a call has the turn, it
// looks again later.
func (b *batch) expire() {
	t := b.meter.turn
	if !t.TryTake() {
		b.timer.Reset(eagerWithin)
		return
	}
	b.giveBack()
	t.Leave()
}

// giveBack refunds what is left.
func (b *batch) giveBack() {
	if b.left == 0 {
		return
	}
	b.timer.Stop()
	passed, m := b.size-b.left, b.meter
	b.left = 0
	if b.holding == nil {
		m.giveBack(b.lease, passed)
		return
	}
	// What has passed holds its permits under a lease of its own from now on.
	limiter.Refund(m.limiter, b.lease)
	again := m.limiter.TryAcquire(passed)
	if !again.Acquired() {
		m.debt += passed
	}
	b.holding.replace(again)
	b.holding.release()
}
