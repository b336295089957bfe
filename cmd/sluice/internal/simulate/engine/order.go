package engine

import (
	"cmp"

	"github.com/sluice-go/sluice/cmd/sluice/internal/heap"
)

// mostHeld is how many requests an order holds back.
const mostHeld = 1 << 14

// Order puts the requests of a log in the order in which they came: many logs have a line when the answer has ended. A
// request that took longer than mostHeld others needed to come counts at the time of the one before it.
type Order struct {
	held   *heap.Heap[heldBack]
	count  int
	newest int64
	began  bool // requests have durations
}

type heldBack struct {
	Request

	nth int
}

// NewOrder returns an order without requests.
func NewOrder() *Order {
	return &Order{held: heap.New(func(a, b heldBack) bool { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.nth, b.nth)) < 0 })}
}

// Add takes a request, and calls each with the one whose turn it is, if any. It returns the error of each.
func (o *Order) Add(q Request, each func(Request) error) error {
	if o.began = o.began || q.Took > 0; !o.began {
		o.newest = q.At
		return each(q)
	}
	o.count++
	o.held.Push(heldBack{q, o.count})
	if o.held.Len() <= mostHeld {
		return nil
	}
	return o.next(each)
}

// End calls each with all that are left. It returns the error of each.
func (o *Order) End(each func(Request) error) error {
	for o.held.Len() > 0 {
		if err := o.next(each); err != nil {
			return err
		}
	}
	return nil
}

func (o *Order) next(each func(Request) error) error {
	q := o.held.Pop().Request
	o.newest = max(o.newest, q.At)
	q.At = o.newest
	return each(q)
}
