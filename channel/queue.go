package channel

import (
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/ring"
)

// queue holds the items that any receiver can take, oldest first, and what each holds. If all hold the same
// number of plain permits, an item takes no more memory than in a native channel.
type queue[T any] struct {
	items  ring.Ring[T]
	each   int                  // plain permits that each item holds, unless varies
	varies bool                 // the items hold leases, or different numbers of permits
	holds  ring.Ring[hold.Hold] // parallel to items, if varies
}

func (q *queue[T]) push(v T, h hold.Hold) {
	if q.varies {
		q.holds.Push(h)
	}
	q.items.Push(v)
}

// pop takes the oldest; there must be one.
func (q *queue[T]) pop() (v T, h hold.Hold) {
	if q.varies {
		h = q.holds.Pop()
	} else {
		h.Permits = q.each
	}
	return q.items.Pop(), h
}

// popBack takes the newest; there must be one.
func (q *queue[T]) popBack() (v T, h hold.Hold) {
	if q.varies {
		h = q.holds.PopBack()
	} else {
		h.Permits = q.each
	}
	return q.items.PopBack(), h
}
