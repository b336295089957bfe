package wait

import (
	"context"
	"sync/atomic"
)

// Mark is a context that notes whether the call to which it is given waits in a queue. The limiter that queues the
// call says so with [Waits], through any contexts that were derived in between.
type Mark struct {
	context.Context

	waited atomic.Bool
}

// marks is the number of marks in use: while there are none, no context is asked for its mark.
var marks atomic.Int64

type markKey struct{}

// NewMark returns a Mark. [Mark.End] must follow.
func NewMark(ctx context.Context) *Mark {
	marks.Add(1)
	return &Mark{Context: ctx}
}

// End ends the use of the mark.
func (m *Mark) End() { marks.Add(-1) }

// Value returns the mark itself for the key of [Waits].
func (m *Mark) Value(key any) any {
	if key == (markKey{}) {
		return m
	}
	return m.Context.Value(key)
}

// Waited reports whether the call has waited. That of a nil Mark is not known: it returns false.
func (m *Mark) Waited() bool { return m != nil && m.waited.Load() }

// Waits notes that a call with the context ctx waits in a queue. Call it without a lock, because ctx may be of a
// user's type.
func Waits(ctx context.Context) {
	if marks.Load() == 0 {
		return
	}
	for m, ok := ctx.Value(markKey{}).(*Mark); ok; m, ok = m.Context.Value(markKey{}).(*Mark) {
		m.waited.Store(true)
	}
}
