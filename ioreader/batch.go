package ioreader

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// batch is a slice that a small call was granted because others wait too: what the call
// did not need is there for the next ones, for a while. See the package's documentation.
type batch struct {
	side     *side
	lease    core.Lease
	size     int
	left     int
	spending bool // the slice on its way is of this batch
	timer    *time.Timer
}

// put makes the batch that of a new lease.
func (b *batch) put(lease core.Lease, size int) {
	b.lease, b.size, b.left = lease, size, size
	if b.timer == nil {
		b.timer = time.AfterFunc(eagerWithin, b.expire)
		return
	}
	b.timer.Reset(eagerWithin)
}

// expire runs when the batch has been there for long enough. If a call has the turn, it
// looks again later.
func (b *batch) expire() {
	if !b.side.turn.try() {
		b.timer.Reset(eagerWithin)
		return
	}
	b.giveBack()
	b.side.turn.leave()
}

// giveBack refunds what is left.
func (b *batch) giveBack() {
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.left == 0 {
		return
	}
	passed := b.size - b.left
	b.left = 0
	b.side.giveBack(b.lease, passed)
}
