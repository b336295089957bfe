// Package meter pays a limiter for the bytes of one direction of a stream, slice by slice, so
// that a large call is spread over its time, and streams that share the limiter get equal parts
// of its bandwidth, whatever the sizes of their calls.
//
//	n, err := m.Take(ctx, source, len(p)) // waits for permits for n bytes
//	n, err = w.Write(p[:n])
//	m.Settle(n)                           // the others are refunded
//
// # Fairness
//
// A limiter serves its waiters in turn, so streams get equal parts if each takes a whole slice
// at its turn. The permits of a window come together, and go to the fastest stream; nothing here
// changes that. A call that is smaller than a slice takes only what it needs, because permits that
// were taken in advance would be held by a stream that may have become idle. If such a call has
// had to wait and other streams still do, its turn stays open for some milliseconds: the next small
// calls pass immediately, up to a slice, by settling the lease of the turn to more permits. The limiter
// owes these, so the streams that wait get theirs later, and the rate is not exceeded.
//
// Only the turns of core's rate limiters, and of chains and views of nothing else, stay open. A Switch and a limiter
// per key count as what they ask at the time. The permits
// of any other limiter may be held by the bytes, as those of a concurrency limiter are, so bytes never pass
// before their permits are available.
package meter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Meter pays for one direction of a stream. It is ready after Init, and for use by one call at
// a time.
type Meter struct {
	// Bounded makes the limiter's QueueLimit apply, for a server that sheds load. It is set after Init.
	Bounded bool

	limiter core.Limiter // nil means unlimited
	current Current      // what the limiter asks
	slice   slice

	taken   int          // bytes of the slices that are not settled; 0 means that there are none
	lease   core.Lease   // for the last slice, and for the bytes that passed before it in this turn
	earlier []core.Lease // for the other slices, oldest first
	open    time.Time    // when the wait for this turn ended, if others were waiting; otherwise zero
}

// openTime is how long a turn stays open. A writer of small pieces that does nothing else is back within
// it; a stream that has been idle waits for a new turn.
const openTime = 5 * time.Millisecond

// Init makes the meter pay l. A nil l means no limit. Take waits whatever the QueueLimit of l is,
// unless Bounded is set.
func (m *Meter) Init(l core.Limiter) {
	*m = Meter{}
	if backdoor.IsNil(l) {
		return
	}
	m.limiter, m.current = l, LookFirst(l)
	m.slice.init(l)
}

// Current returns what the limiter uses now, which must not be nil.
func (m *Meter) Current() *Current {
	m.look()
	return &m.current
}

// look starts anew if the limiter calls another one than before. A turn of the former one ends, so that nothing passes on
// its credit.
func (m *Meter) look() {
	if !m.current.Fixed() && m.current.Look(m.limiter) {
		m.slice.init(m.limiter)
		if m.taken == 0 {
			m.end()
		}
		m.open = time.Time{}
	}
}

// Limiter returns the limiter; nil if there is none.
func (m *Meter) Limiter() core.Limiter { return m.limiter }

// Slice returns how many bytes of want the next slice has at most.
func (m *Meter) Slice(want int) int {
	if m.limiter == nil {
		return want
	}
	return min(want, m.slice.size)
}

// Take takes the next slice of want bytes, at least 1, and returns how many bytes it has. Settle
// or Keep must follow. A wait ends with ctx and with s.
func (m *Meter) Take(ctx context.Context, s *wait.Source, want int) (int, error) {
	for {
		if err := s.Ended(ctx); err != nil {
			return 0, err
		}
		m.look()
		if n := m.extend(want); n > 0 {
			return n, nil
		}
		n := m.Slice(want)
		if m.tryTake(n) {
			return n, nil
		}
		start := time.Now()
		lease, _, err := hold.Wait(ctx, s, m.limiter, n, !m.Bounded)
		if n > 1 && errors.Is(err, core.ErrPermitsExceedLimit) {
			m.look()
			m.slice.shrink(min(hold.Limit(m.limiter), n-1))
			continue
		}
		if err != nil {
			return 0, err
		}
		m.lease, m.taken = lease, n
		m.look() // the limiter may have changed during the wait
		m.slice.observe(m.limiter, lease, n, time.Since(start))
		if r, ok := m.limiter.(core.Reporter); ok && m.current.Rated && n < m.slice.size && r.Statistics().Queued > 0 {
			m.open = time.Now()
		}
		return n, nil
	}
}

// extend takes at most want bytes in a turn that is still open, and returns their number. A piece that is far
// smaller than a slice and than the call is not worth a write.
func (m *Meter) extend(want int) int {
	if m.open.IsZero() {
		return 0
	}
	before := m.lease.Permits()
	room := m.slice.size - before
	n := min(want, room)
	if n > 0 && (n == want || room >= m.slice.size/16) && time.Since(m.open) <= openTime {
		m.lease = m.lease.Settle(before + n)
		if m.taken = m.lease.Permits() - before; m.taken == n {
			return n
		}
	}
	m.taken = 0
	m.end()
	// The first request of this turn was small, so it may have been granted together with the request before it.
	// That stream asks again before this one; otherwise this one would get ahead of it in each round.
	runtime.Gosched()
	return 0
}

// More is like Take, but never waits: it returns 0 if the permits are not available. The limiter
// does not count the rejection.
func (m *Meter) More(want int) int {
	m.look()
	if n := m.Slice(want); m.open.IsZero() && m.tryTake(n) {
		return n
	}
	return 0
}

// Gather adds slices to the one that Take has taken, for one write of all of them, while their permits are available
// without a wait. It returns how many bytes of want they have. Permits that may be held are left to others.
func (m *Meter) Gather(want int) (n int) {
	for n < want && m.current.Rated && m.open.IsZero() {
		lease, before := m.lease, m.taken
		k := m.More(want - n)
		if k == 0 {
			break
		}
		m.earlier = append(m.earlier, lease)
		m.taken = before + k
		n += k
	}
	return n
}

// tryTake takes a slice of n bytes if the permits are available. A request for less than a slice, and most of
// those for the largest, show nothing new of the limiter.
func (m *Meter) tryTake(n int) bool {
	lease, ok := core.TryQuietly(m.limiter, n)
	if !ok {
		return false
	}
	m.lease, m.taken = lease, n
	switch {
	case n < m.slice.size:
	case m.slice.skip > 0:
		m.slice.skip--
	default:
		m.slice.observe(m.limiter, lease, n, noWait)
	}
	return true
}

// Release releases the lease of the slice before its bytes have passed, as the writer that they
// pass to asks the same limiter. Settle must follow: a rate limiter takes back then what did not pass.
func (m *Meter) Release() { m.lease.Release() }

// end releases the lease, and ends the turn.
func (m *Meter) end() {
	m.lease.Release()
	m.lease, m.open = core.Lease{}, time.Time{}
	if len(m.earlier) > 0 {
		core.ReleaseAll(m.earlier)
		clear(m.earlier)
		m.earlier = m.earlier[:0]
	}
}

// Settle ends the slice, and returns the permits of the bytes that have not passed. It does nothing
// if there is no slice. A limiter that takes back only whole leases gets one back only if no byte has passed.
func (m *Meter) Settle(passed int) {
	if m.taken == 0 {
		return
	}
	unused := m.taken - passed
	m.taken = 0
	for last := len(m.earlier) - 1; last >= 0 && unused >= m.lease.Permits(); last-- { // the last slices have not passed
		unused -= m.lease.Permits()
		m.lease.Refund()
		m.lease, m.earlier = m.earlier[last], m.earlier[:last]
	}
	if unused > 0 && m.lease.Acquired() {
		used := max(m.lease.Permits()-unused, 0)
		m.lease = m.lease.Settle(used)
		if used == 0 { // it is refunded
			m.lease, m.open = core.Lease{}, time.Time{}
		}
	}
	if m.open.IsZero() {
		m.end()
	}
}

// Keep is Settle of a slice whose bytes have all passed, but hold their permits until the caller
// releases the lease.
func (m *Meter) Keep() core.Lease {
	lease := m.lease
	m.lease, m.taken, m.open = core.Lease{}, 0, time.Time{}
	return lease
}

// Check returns an error if l holds a nil pointer, which would count as no limit. field is the name of l in the error.
func Check(field string, l core.Limiter) error {
	if l != nil && backdoor.IsNil(l) {
		return fmt.Errorf("%s is a nil %T, want a limiter, or nil for none", field, l)
	}
	return nil
}

// Describe returns a description of a stream's limit.
func Describe(l core.Limiter) string {
	if l == nil {
		return "unlimited"
	}
	return "limited by " + backdoor.Describe(l)
}
