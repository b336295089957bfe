// Package meter pays a limiter for the bytes of one direction of a stream, slice by slice, so
// that a large call is spread over its time, and streams that share the limiter share its
// bandwidth in equal parts, whatever the sizes of their calls.
//
// How large a slice is follows from what the limiter's leases say of its rate, and from how
// long the limiter lets the stream wait. Whose limiter it is does not matter.
package meter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/internal/turn"
)

// Meter is ready after Init. Whoever has the stream's turn may use it, and nobody else, but
// for Waits and Clear.
//
// A call takes a slice, passes its bytes and settles it, and so on until all have passed.
type Meter struct {
	limiter core.Limiter // nil: unlimited
	turn    *turn.Turn
	trusted bool // the limiter is one of core's: it keeps no context, and looks at the one that it gets

	pace    pace
	lease   core.Lease // of the slice that is on its way
	taken   int        // bytes of that slice; 0: there is none
	debt    int        // bytes that passed, but whose permits went to somebody else
	batch   batch
	started time.Time
	waiting atomic.Int64 // when the limiter made the call wait, since started; 0: it has not
}

// Init makes the meter pay l on behalf of calls that have the turn t. A nil l is unlimited.
func (m *Meter) Init(l core.Limiter, t *turn.Turn) {
	if argument.IsNil(l) {
		return
	}
	m.limiter, m.turn = l, t
	switch l.(type) {
	case *core.ConcurrencyLimiter, *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow:
		m.trusted = true
	}
	m.started = time.Now()
	m.pace = newPace(l)
	m.batch.meter = m
}

// Limiter returns the limiter; nil if there is none.
func (m *Meter) Limiter() core.Limiter { return m.limiter }

// Trusted reports whether the limiter is one of core's four, which keep no context that they
// were asked with.
func (m *Meter) Trusted() bool { return m.trusted }

// Slice returns how many bytes of want the next slice is for, at most.
func (m *Meter) Slice(want int) int { return min(want, m.pace.slice) }

// Waits is told, by ending.Source.Waiting, that the limiter makes a call wait.
func (m *Meter) Waits() {
	if m.waiting.Load() == 0 {
		m.waiting.CompareAndSwap(0, max(int64(time.Since(m.started)), 1))
	}
}

// Take pays for the next slice of want bytes, at least 1, and returns how many those are.
// Settle must follow.
func (m *Meter) Take(ctx context.Context, want int) (int, error) {
	if !m.trusted || m.batch.left > 0 || m.debt > 0 || m.pace.sharing {
		return m.takeSlow(ctx, want)
	}
	n := min(want, m.pace.slice)
	lease, err := m.limiter.Acquire(ctx, n)
	if err != nil {
		if n, err = m.refused(n, want, lease, err); n > 0 || err != nil {
			return n, err
		}
		return m.takeSlow(ctx, want)
	}
	m.lease, m.taken = lease, n
	if m.pace.due(n) || m.waiting.Load() != 0 {
		m.learn(lease, n)
	}
	return n, nil
}

// takeSlow is Take when there is a batch to spend or to get, or a debt to be paid, and of a
// limiter that is not core's.
func (m *Meter) takeSlow(ctx context.Context, want int) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if m.batch.left > 0 {
			m.taken = m.batch.spend(want)
			return m.taken, nil
		}
		ask := min(want, m.pace.slice)
		owed, bulk := m.debt > 0, false
		if owed {
			ask = min(m.debt, m.pace.slice)
		} else if bulk = m.pace.sharing && ask < m.pace.slice && m.pace.eager(); bulk {
			ask = m.pace.slice
		}
		lease, err := m.limiter.Acquire(ctx, ask)
		lease, err = limiter.Checked(m.limiter, lease, err)
		switch {
		case err != nil:
			part := want
			if owed {
				part = 0 // a debt is not paid in parts
			}
			if n, err := m.refused(ask, part, lease, err); n > 0 || err != nil {
				return n, err
			}
		case owed:
			m.debt -= ask
			lease.Release()
			m.learn(lease, ask)
		case bulk:
			m.batch.put(lease, ask)
			m.learn(lease, ask)
		default:
			m.lease, m.taken = lease, ask
			if m.pace.due(ask) || m.pace.sharing || m.waiting.Load() != 0 {
				m.learn(lease, ask)
			}
			return ask, nil
		}
	}
}

// refused makes of a refusal what the call does next: it passes so many bytes, or ends with
// the error, or, if there is neither, asks again for less.
func (m *Meter) refused(asked, want int, lease core.Lease, err error) (int, error) {
	m.waiting.Store(0)
	if asked > 1 && errors.Is(err, core.ErrPermitsExceedLimit) {
		m.pace.shrink(m.limiter, asked)
		return 0, nil
	}
	if errors.Is(err, core.ErrRejected) {
		// Less than the slice may be there, and passes; the next slice gets the error.
		left, _ := core.Remaining.From(lease)
		if n := min(left, asked-1, want); n > 0 {
			if less := m.limiter.TryAcquire(n); less.Acquired() {
				m.lease, m.taken = less, n
				return n, nil
			}
		}
	}
	return 0, err
}

// learn adapts the pace to how the limiter answered.
func (m *Meter) learn(lease core.Lease, asked int) {
	waited := time.Duration(0)
	if from := m.waiting.Swap(0); from != 0 {
		waited = max(time.Since(m.started)-time.Duration(from), 1)
	}
	m.pace.learn(m.limiter, lease, asked, waited)
}

// Release gives back what the slice holds before its bytes have passed, because what they
// pass through asks the same limiter. Settle must follow all the same.
func (m *Meter) Release() {
	if !m.batch.spending {
		m.lease.Release()
	}
}

// Settle says how many bytes of the slice have passed. The rest is given back.
func (m *Meter) Settle(passed int) {
	if m.taken != 0 {
		m.settle(passed)
	}
}

func (m *Meter) settle(passed int) {
	n := m.taken
	m.taken = 0
	switch {
	case m.batch.spending:
		m.batch.settle(n - passed)
	case passed == n:
		m.lease.Release()
	default:
		m.giveBack(m.lease, passed)
	}
}

// More pays for want bytes more, or as many of them as there are permits for without waiting;
// 0: there are none. The slice before is settled.
func (m *Meter) More(want int) int {
	if m.batch.left > 0 || m.debt > 0 {
		return 0
	}
	var left int
	if m.trusted {
		left = m.limiter.Available()
	} else { // which might have to ask a server
		left, _ = core.Remaining.From(m.lease)
	}
	n := min(want, left)
	if n <= 0 {
		return 0
	}
	lease := m.limiter.TryAcquire(n)
	if !lease.Acquired() {
		return 0
	}
	m.lease, m.taken = lease, n
	return n
}

// Keep is Settle for a slice whose bytes have all passed, and go on holding its permits until
// the lease that Keep returns is released.
func (m *Meter) Keep() core.Lease {
	m.taken = 0
	if m.batch.spending {
		return m.batch.keep()
	}
	return m.lease
}

// giveBack refunds a lease of which only some bytes have passed.
func (m *Meter) giveBack(lease core.Lease, passed int) {
	// A lease is refunded whole. A call that waits may be served from it before what has
	// passed is taken again; then that is paid for before the next slice.
	limiter.Refund(m.limiter, lease)
	if _, ok := m.limiter.(core.Refunder); !ok || passed == 0 || !tellsRate(lease) {
		return // permits of a concurrency limiter are not used up by what passes
	}
	if again := m.limiter.TryAcquire(passed); again.Acquired() {
		again.Release()
	} else {
		m.debt += passed
	}
}

// HasBatch reports whether there is an unused part of a batch.
func (m *Meter) HasBatch() bool { return m.batch.left > 0 }

// Clear gives the unused part of a batch back, unless a call has the turn, which is then to
// call Clear after it has left.
func (m *Meter) Clear() {
	if m.limiter == nil || !m.turn.TryTake() {
		return
	}
	defer m.turn.Leave() // a user's limiter may panic
	m.batch.giveBack()
}

// Describe says what a limiter limits a stream to, for people.
func Describe(l core.Limiter) string {
	switch l := l.(type) {
	case nil:
		return "unlimited"
	case fmt.Stringer:
		return "limited by " + l.String()
	default:
		return fmt.Sprintf("limited by %T", l)
	}
}

// Same reports whether a and b are one limiter.
func Same(a, b core.Limiter) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
