// Package meter pays a limiter for the bytes of one direction of a stream, slice by slice, so
// that a large call is spread over its time, and streams that share the limiter get equal parts
// of its bandwidth, whatever the sizes of their calls.
//
//	n, err := m.Take(ctx, source, len(p)) // waits for permits for n bytes
//	n, err = w.Write(p[:n])
//	m.Settle(n)                           // the others are given back
//
// # Fairness
//
// A limiter serves its waiters in turn, so streams get equal parts if each takes a whole slice
// at its turn. The permits of a window come at once, and go to the fastest stream; nothing here
// changes that. A call that is smaller than a slice takes only what it needs, because permits that
// were taken in advance would be held by a stream that may have become idle. If such a call has
// had to wait and other streams still do, it opens a credit: for some milliseconds the next small
// calls pass without permits, up to a slice, and the next request asks for what is owed as well.
//
// Only core's rate limiters, and chains and views of nothing else, open a credit. The permits of any other
// limiter may be held by the bytes, as those of a concurrency limiter are, so bytes never pass without them.
package meter

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Meter pays for one direction of a stream. It is ready after Init, and for use by one call at
// a time.
type Meter struct {
	limiter core.Limiter // nil: unlimited
	bounded bool         // the limiter's QueueLimit applies to the requests
	rated   bool         // permits come back with time alone, so bytes may pass on credit
	slice   slice

	// The slice that was taken and not settled.
	taken    int        // its bytes; 0 means that there is none
	onCredit bool       // the bytes are part of owed
	lease    core.Lease // for the slice and what was owed before; not acquired on credit

	// Fairness.
	served time.Time // when the last wait ended, if others were waiting; else zero
	owed   int       // bytes that passed on credit
	paid   int       // bytes that were paid for, at most mostPaid
}

const (
	// How long a credit is open. A writer of small pieces that does nothing else is back within
	// it; a stream that has been idle pays first.
	creditTime = 5 * time.Millisecond

	// A stream owes at most one part in creditPart of what it has paid: one that is closed never
	// pays its debt, and many short ones must not exceed the limiter's rate by more than that.
	creditPart = 16

	// Having paid for more does not raise the credit, which is at most a slice.
	mostPaid = largest * creditPart
)

// InitBounded is Init for a server that sheds load: the limiter's QueueLimit applies.
func (m *Meter) InitBounded(l core.Limiter) {
	m.Init(l)
	m.bounded = true
}

// Init makes the meter pay l. A nil l means no limit. Take waits whatever the QueueLimit of l is.
func (m *Meter) Init(l core.Limiter) {
	*m = Meter{}
	if backdoor.IsNil(l) {
		return
	}
	m.limiter = l
	m.rated = hold.ReturnsWithTime(l)
	m.slice.init(hold.Limit(l))
}

// Limiter returns the limiter; nil if there is none.
func (m *Meter) Limiter() core.Limiter { return m.limiter }

// Slice returns how many bytes of want the next slice has at most.
func (m *Meter) Slice(want int) int { return min(want, m.slice.size) }

// Take takes the next slice of want bytes, at least 1, and returns how many bytes it has. Settle
// or Keep must follow. A wait ends with ctx and with s.
func (m *Meter) Take(ctx context.Context, s *wait.Source, want int) (int, error) {
	for {
		if err := s.Ended(ctx); err != nil {
			return 0, err
		}
		if n := m.credit(want); n > 0 {
			m.owed += n
			m.taken, m.onCredit = n, true
			return n, nil
		}
		n := min(m.owed+want, m.slice.size)
		waited := atOnce
		lease, ok := core.TryQuietly(m.limiter, n)
		if !ok {
			begun := time.Now()
			var err error
			lease, err = m.wait(ctx, s, n)
			if n > 1 && errors.Is(err, core.ErrPermitsExceedLimit) {
				m.slice.shrink(min(hold.Limit(m.limiter), n-1))
				continue
			}
			if err != nil {
				return 0, err
			}
			waited = time.Since(begun)
		}
		debt := min(m.owed, n)
		m.owed -= debt
		m.grant(lease, n)
		m.taken -= debt
		m.learn(n, waited)
		if m.taken > 0 {
			return m.taken, nil
		}
		m.end() // it was for what is owed; no permits are held while others are asked for
	}
}

func (m *Meter) wait(ctx context.Context, s *wait.Source, n int) (core.Lease, error) {
	if m.bounded {
		return hold.Wait(ctx, s, m.limiter, n)
	}
	return hold.WaitBeyond(ctx, s, m.limiter, n)
}

// More is Take that never waits: it returns 0 if the permits are not available. The limiter does
// not count the rejection.
func (m *Meter) More(want int) int {
	if m.owed > 0 || !m.served.IsZero() {
		return 0
	}
	n := min(want, m.slice.size)
	lease, ok := core.TryQuietly(m.limiter, n)
	if !ok {
		return 0
	}
	m.grant(lease, n)
	m.follow(n)
	return n
}

// follow adapts the slice after a request for n permits that were available. A request for less than a
// slice, and most of those for the largest, show nothing new.
func (m *Meter) follow(n int) {
	switch {
	case n < m.slice.size:
	case m.slice.skip > 0:
		m.slice.skip--
	default:
		m.slice.observe(m.limiter, m.lease, n, atOnce)
	}
}

func (m *Meter) grant(lease core.Lease, n int) {
	m.lease, m.taken, m.onCredit = lease, n, false
	m.paid = min(m.paid+n, mostPaid)
}

// credit returns how many of want bytes may pass on credit.
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

// learn adapts the slice after a request for n permits, and looks whether others are waiting.
func (m *Meter) learn(n int, waited time.Duration) {
	m.served = time.Time{}
	if waited == atOnce {
		m.follow(n)
		return
	}
	m.slice.observe(m.limiter, m.lease, n, waited)
	if r, ok := m.limiter.(core.Reporter); ok && m.rated && r.Statistics().Queued > 0 {
		m.served = time.Now()
	}
}

// Release releases the lease of the slice before its bytes have passed, as the writer that they
// pass to asks the same limiter. Settle must follow: a rate limiter takes back then what did not pass.
func (m *Meter) Release() { m.lease.Release() }

// end releases the lease of a slice that is settled.
func (m *Meter) end() {
	m.lease.Release()
	m.lease = core.Lease{}
}

// Settle ends the slice, and gives back the permits of the bytes that have not passed. It does nothing
// if there is no slice.
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
		m.settle(unused)
	}
	m.onCredit = false
	m.end()
}

// settle gives back unused permits. A limiter that takes back only whole leases gets one back only if no
// byte has passed.
func (m *Meter) settle(unused int) {
	if !m.lease.Acquired() {
		return
	}
	used := max(m.lease.Permits()-unused, 0)
	m.lease = backdoor.Settle(m.limiter, m.lease, used)
	if used == 0 {
		m.lease = core.Lease{} // it is refunded
	}
}

// Keep is Settle of a slice whose bytes have all passed, but hold their permits until the caller
// releases the lease. The lease is not acquired if they passed on credit.
func (m *Meter) Keep() core.Lease {
	lease := m.lease
	m.lease, m.taken, m.onCredit = core.Lease{}, 0, false
	return lease
}

// Describe returns a description of a stream's limit.
func Describe(l core.Limiter) string {
	if l == nil {
		return "unlimited"
	}
	return "limited by " + backdoor.Describe(l)
}
