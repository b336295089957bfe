package limitertest

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-go/sluice/core"
)

// model predicts by plain arithmetic what a limiter does that keeps the rules. It does not know
// when permits come back with time; a play reads that from the limiter.
type model struct {
	limit  int
	room   int // permits that may wait
	newest bool
	holds  bool // leases hold permits until they are released
	timed  bool // permits come back with time

	held    int // permits of leases, if the limiter holds; more than limit is a debt
	spent   int // permits that have not come back with time, if it is timed; more than limit is a debt
	shut    bool
	closed  bool
	waiting []*call // oldest first

	granted, rejected uint64
}

func newModel(f *facts) model {
	return model{
		limit: f.Limit, room: f.QueueLimit, newest: f.QueueOrder == core.NewestFirst,
		holds: f.Holds && !f.unlimited(), timed: f.Refill > 0,
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

// admission returns the rule that decides about a new request for n permits.
func (m *model) admission(n int) string {
	switch {
	case m.closed:
		return "close refuses from then on"
	case n == 0 && m.queued() > 0 && m.available() > 0:
		return "a zero-permit request ignores the queue"
	case n == 0:
		return "a zero-permit request takes nothing"
	case n <= m.available() && m.queued() > 0 && m.newest:
		return "a newcomer that fits goes first"
	case n <= m.available() && m.queued() > 0:
		return "nobody overtakes"
	}
	return "available is what can be taken"
}

// queueing returns the rule that decides about a request for n permits that is not granted without waiting.
func (m *model) queueing(n int) string {
	switch {
	case m.closed:
		return "close refuses from then on"
	case n == 0:
		return "a zero-permit request waits outside the queue limit"
	case m.room == 0:
		return "without a queue nobody waits"
	case m.queued() <= m.room-n:
		return "the queue counts permits"
	case !m.newest:
		return "a full queue rejects the newcomer"
	case n > m.room:
		return "more than the queue limit evicts nobody"
	}
	return "a full queue evicts the oldest"
}

// acquire decides about a request; it may evict others.
func (m *model) acquire(c *call) {
	switch {
	case m.closed:
		c.expect(core.ErrClosed)
	case m.fits(c.n):
		m.grant(c)
	case c.n > m.room, !m.newest && m.queued() > m.room-c.n:
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
	c.expect(nil)
	m.granted++
	m.take(c.n)
}

// take takes n permits; it returns them if n is negative.
func (m *model) take(n int) {
	if m.limit == math.MaxInt {
		return
	}
	if m.holds {
		m.held += n
	}
	if m.timed {
		m.spent += n
	}
}

func (m *model) reject(c *call, reason string) {
	c.expect(core.ErrRejected)
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

// serving serves, and returns the rule by which it does; rule if no request waits.
func (m *model) serving(rule string) string {
	if len(m.waiting) == 0 {
		return rule
	}
	zeros := slices.ContainsFunc(m.waiting, func(c *call) bool { return c.n == 0 })
	m.serve()
	fits := slices.ContainsFunc(m.waiting, func(c *call) bool { return c.n <= m.available() })
	switch {
	case zeros:
		return "zero-permit requests are served after the queue"
	case fits:
		return "serving stops at the first that does not fit"
	}
	return "the queue is served in order"
}
