package limitertest

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-go/sluice/core"
)

// model predicts by plain arithmetic what a limiter does that keeps the rules. It does not know
// when permits are returned with time; a play reads that from the limiter.
type model struct {
	limit  int
	room   int // permits that may wait
	newest bool
	holds  bool // leases hold permits until they are released
	timed  bool // permits are returned with time

	held    int // permits of leases, if the limiter holds; more than limit is a debt
	spent   int // permits that have not been returned with time, if it is timed; more than limit is a debt
	shut    bool
	closed  bool
	waiting []*call // oldest first

	granted, rejected uint64
}

func newModel(c Config) model {
	return model{
		limit: c.Limit, room: c.QueueLimit, newest: c.QueueOrder == core.NewestFirst,
		holds: c.Holds && !c.unlimited(), timed: c.Refill > 0,
	}
}

func (m *model) String() string {
	return fmt.Sprintf("with %d of %d permits available and %d waiting", m.available(), m.limit, m.queued())
}

// taken returns the permits that are not available; more than the limit is a debt.
func (m *model) taken() int { return max(m.held, m.spent) }

func (m *model) inDebt() bool { return m.limit < math.MaxInt && m.taken() > m.limit }

func (m *model) available() int {
	switch {
	case m.shut:
		return 0
	case m.limit == math.MaxInt:
		return m.limit
	}
	return max(m.limit-m.taken(), 0)
}

// queued returns the permits that wait. Zero-permit requests wait outside the queue.
func (m *model) queued() (n int) {
	for _, c := range m.waiting {
		n += c.n
	}
	return n
}

// fits reports whether a new request for n permits is granted without waiting.
func (m *model) fits(n int) bool {
	return !m.closed && max(n, 1) <= m.available() && (n == 0 || m.newest || m.queued() == 0)
}

// admits reports whether a new request for n permits waits, unless it is granted.
func (m *model) admits(n int) bool {
	return !m.closed && (n <= m.room-m.queued() || m.newest && n <= m.room)
}

// acquire decides about a request; it may evict others.
func (m *model) acquire(c *call) {
	switch {
	case m.closed:
		c.want = core.ErrClosed
	case m.fits(c.n):
		m.grant(c)
	case !m.admits(c.n):
		m.reject(c, "queue limit reached")
	default:
		for m.queued() > m.room-c.n {
			oldest := m.waiting[slices.IndexFunc(m.waiting, func(c *call) bool { return c.n > 0 })]
			m.leave(oldest)
			m.reject(oldest, "evicted by a newer request")
		}
		m.waiting = append(m.waiting, c)
	}
}

func (m *model) grant(c *call) {
	c.want = nil
	if !c.counted {
		m.granted++
	}
	m.take(c.n)
}

// take takes n permits; it returns them if n is negative. What is taken does not overflow.
func (m *model) take(n int) {
	if m.limit == math.MaxInt {
		return
	}
	if m.holds {
		m.held = more(m.held, n)
	}
	if m.timed {
		m.spent = more(m.spent, n)
	}
}

func (m *model) reject(c *call, reason string) {
	c.want = core.ErrRejected
	c.reason = reason
	m.rejected++
}

func (m *model) leave(c *call) {
	m.waiting = slices.DeleteFunc(m.waiting, func(other *call) bool { return other == c })
}

// next returns the waiter that is served next, nil if no request waits in the queue.
func (m *model) next() (next *call) {
	for _, c := range m.waiting {
		if c.n > 0 && (next == nil || m.newest) {
			next = c
		}
	}
	return next
}

// serve grants to the waiters that fit, up to the first that does not, and then to the zero-permit requests.
func (m *model) serve() {
	for c := m.next(); c != nil && c.n <= m.available(); c = m.next() {
		m.leave(c)
		m.grant(c)
	}
	if m.available() == 0 {
		return
	}
	for _, c := range slices.Clone(m.waiting) {
		if c.n == 0 {
			m.leave(c)
			m.grant(c)
		}
	}
}

// more returns n+by, or math.MaxInt where that is too much.
func more(n, by int) int {
	if by > 0 && n > math.MaxInt-by {
		return math.MaxInt
	}
	return n + by
}

// reserved reports whether a reservation waits.
func (m *model) reserved() bool {
	return slices.ContainsFunc(m.waiting, func(c *call) bool { return c.ended == nil })
}
