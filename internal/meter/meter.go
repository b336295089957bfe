// Package meter pays a limiter for the bytes of one direction of a stream, slice by slice, so
// that a large call is spread over its time, and streams that share the limiter share its
// bandwidth in equal parts, whatever the sizes of their calls.
//
// The limiter serves its waiters in turn, so streams get equal parts if they take equal
// slices. A call that is smaller than a slice, and has waited while others were waiting too,
// therefore lets the stream pass the rest of a slice on credit, for a few milliseconds;
// the next request pays. A stream never holds permits for bytes that have not come.
package meter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/acquire"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/internal/linked"
)

// Meter is ready after Init. It is for one call at a time, which takes a slice, passes its
// bytes and settles it, and so on until all have passed.
type Meter struct {
	limiter core.Limiter // nil: unlimited
	slice   slice

	// The slice that is being passed.
	taken    int        // its bytes; 0: there is none
	onCredit bool       // it is part of what is owed
	lease    core.Lease // what was granted for it, or to pay for what was owed

	// Fairness between streams.
	served time.Time // when a wait of this stream ended while others were waiting; zero: nobody shares
	owed   int       // bytes that have passed on credit
	paid   int       // bytes that were paid for
}

const (
	// Credit is given for so long after a wait. A writer of small pieces that does nothing
	// else comes back within it; a stream that has been idle pays first.
	creditTime = 5 * time.Millisecond

	// A stream owes no more than this part of what it has paid: a stream that is closed never
	// pays its debt, and short ones must not get far above the limiter's rate that way.
	creditPart = 16
)

// Init makes the meter pay l. A nil l is unlimited.
func (m *Meter) Init(l core.Limiter) {
	if argument.IsNil(l) {
		return
	}
	m.limiter = l
	m.slice.init(Limit(l))
}

// Limiter returns the limiter; nil if there is none.
func (m *Meter) Limiter() core.Limiter { return m.limiter }

// Slice returns how many bytes of want the next slice is for, at most.
func (m *Meter) Slice(want int) int { return min(want, m.slice.size) }

// Take pays for the next slice of want bytes, at least 1, and returns how many those are.
// Settle or Keep must follow. It waits until ctx or s ends.
func (m *Meter) Take(ctx context.Context, s *linked.Source, want int) (int, error) {
	if m.owed == 0 && m.served.IsZero() {
		if err := ended(ctx, s); err != nil {
			return 0, err
		}
		if n := m.tryQuietly(want); n > 0 {
			return n, nil
		}
	}
	return m.takeSlow(ctx, s, want)
}

// takeSlow is Take of a stream that shares the limiter, or may have to wait.
func (m *Meter) takeSlow(ctx context.Context, s *linked.Source, want int) (int, error) {
	for {
		if err := ended(ctx, s); err != nil {
			m.Release()
			return 0, err
		}
		if n := m.credit(want); n > 0 {
			m.owed += n
			m.taken, m.onCredit = n, true
			return n, nil
		}
		n := min(m.owed+want, m.slice.size)
		begun := time.Now()
		lease, err := acquire.Acquire(ctx, s, m.limiter, n)
		if n > 1 && errors.Is(err, core.ErrPermitsExceedLimit) {
			m.slice.shrink(min(Limit(m.limiter), n-1))
			continue
		}
		m.Release()
		if err != nil {
			return 0, err
		}
		debt := min(m.owed, n)
		m.owed -= debt
		m.grant(lease, n-debt)
		m.paid += debt
		m.learn(n, time.Since(begun))
		if m.taken > 0 {
			return m.taken, nil
		}
	}
}

// More pays for the next slice of want bytes if the permits are there, and returns how many
// bytes those are; else 0. The slice before is settled.
func (m *Meter) More(want int) int {
	if m.owed > 0 || !m.served.IsZero() {
		return 0
	}
	return m.tryQuietly(want)
}

// tryQuietly takes a slice if nobody has to wait for it; else it returns 0.
func (m *Meter) tryQuietly(want int) int {
	n := min(want, m.slice.size)
	lease, ok := core.TryQuietly(m.limiter, n)
	if !ok {
		return 0
	}
	m.grant(lease, n)
	if n == m.slice.size {
		m.slice.follow(m.limiter, lease)
	}
	return n
}

func (m *Meter) grant(lease core.Lease, n int) {
	m.lease, m.taken, m.onCredit = lease, n, false
	m.paid += n
}

// credit returns how many of want bytes may pass before they are paid for.
func (m *Meter) credit(want int) int {
	if m.served.IsZero() || want >= m.slice.size {
		return 0
	}
	if time.Since(m.served) > creditTime {
		m.served = time.Time{}
		return 0
	}
	return max(min(want, min(m.slice.size, m.paid/creditPart)-m.owed), 0)
}

// learn adapts the slice after a wait for n permits, and looks whether others are waiting.
func (m *Meter) learn(n int, waited time.Duration) {
	m.slice.followWait(m.limiter, m.lease, n, waited)
	m.served = time.Time{}
	if r, ok := m.limiter.(core.Reporter); ok && r.Statistics().Queued > 0 {
		m.served = time.Now()
	}
}

// Release gives back what the slice holds before its bytes have passed, because what they
// pass through asks the same limiter. Settle must follow all the same.
func (m *Meter) Release() {
	m.lease.Release()
	m.lease = core.Lease{}
}

// Settle says how many bytes of the slice have passed. It does nothing if there is no slice.
func (m *Meter) Settle(passed int) {
	if m.taken == 0 && !m.lease.Acquired() {
		return
	}
	unused := m.taken - passed
	m.taken = 0
	switch {
	case unused <= 0:
	case m.onCredit:
		m.owed -= unused
	default:
		m.paid -= unused
		m.lease = settle(m.limiter, m.lease, unused)
	}
	m.onCredit = false
	m.Release()
}

// settle gives back the permits of bytes that did not pass, and returns the lease of those
// that did.
func settle(l core.Limiter, lease core.Lease, unused int) core.Lease {
	if !lease.Acquired() {
		return lease
	}
	used := max(lease.Permits()-unused, 0)
	if s, ok := l.(core.Settler); ok {
		return s.Settle(lease, used)
	}
	if used == 0 {
		limiter.Refund(l, lease)
		return core.Lease{}
	}
	return lease
}

// Keep is Settle for a slice whose bytes have all passed, and go on holding their permits until
// the caller releases the lease. The lease is not acquired if nothing was paid for them yet.
func (m *Meter) Keep() core.Lease {
	lease := m.lease
	m.lease, m.taken, m.onCredit = core.Lease{}, 0, false
	return lease
}

// ended returns why a call has to end; nil if it goes on.
func ended(ctx context.Context, s *linked.Source) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Cause()
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
