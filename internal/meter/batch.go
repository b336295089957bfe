package meter

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
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
}

// put makes the batch that of a new lease. The turn is held, so expire waits until then.
func (b *batch) put(lease core.Lease, size int) {
	b.lease, b.size, b.left = lease, size, size
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
	if b.left += unused; b.left == 0 {
		b.timer.Stop()
		b.lease.Release()
	}
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
	passed := b.size - b.left
	b.left = 0
	b.meter.giveBack(b.lease, passed)
}
