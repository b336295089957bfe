package limitertest

import (
	"slices"

	"github.com/sluice-go/sluice/core"
)

// maxInLine is how many requests of a flow wait in a test of flows, if the queue has room for them.
const maxInLine = 6

// inLine returns how many requests of each of two flows wait.
func (s *subject) inLine() int { return min(maxInLine, s.QueueLimit/(2*s.piece())) }

// acquiresAs is acquires for a flow.
func (s *subject) acquiresAs(f core.Flow, n int) *call {
	ctx := s.ctx
	defer func() { s.ctx = ctx }()
	s.ctx = core.WithFlow(ctx, f)
	return s.acquires(n)
}

// lineUp has requests of a flow wait, those in line and others.
func (s *subject) lineUp(f core.Flow, line ...*call) []*call {
	for len(line) < s.inLine() {
		c := s.acquiresAs(f, s.piece())
		c.mustWait("with nothing available, or behind others")
		line = append(line, c)
	}
	return line
}

// served has requests of a flow served, and others wait in their place. The flow waits all the time.
func (s *subject) served(f core.Flow, line []*call) []*call {
	if len(line) < maxInLine { // they might be served together
		return line
	}
	for range 4 {
		s.restock()
		line = s.lineUp(f, slices.DeleteFunc(line, (*call).granted)...)
	}
	return line
}

// granted counts the calls that were granted.
func granted(calls []*call) (n int) {
	for _, c := range calls {
		if c.granted() {
			n++
		}
	}
	return n
}

// flows expects a fair queue to keep shares and priorities.
func flows(s *subject) {
	s.flowsGetShares()
	s.renew()
	s.prioritiesComeFirst()
}

// flowsGetShares expects the grants of two flows that wait, divided by their weights, to differ by no more than a request
// of each, however early the first flow came and whatever it got before, and all requests to be served.
func (s *subject) flowsGetShares() {
	inLine := s.inLine()
	for _, weights := range [][2]int{{0, 0}, {2, 5}, {5, 2}} {
		s.renew()
		s.empties()
		first := core.Flow{Key: "a", Weight: weights[0]}
		a := s.served(first, s.lineUp(first))
		b := s.lineUp(core.Flow{Key: "b", Weight: weights[1]})
		for range 2 * inLine {
			s.restock()
			x, y := granted(a), granted(b)
			if x == inLine || y == inLine {
				break
			}
			v, w := max(weights[0], 1), max(weights[1], 1)
			if d := x*w - y*v; d > v+w || d < -v-w {
				s.errorf("two flows of weights %d and %d, the first came earlier: %d and %d requests were granted, want their numbers by weight to differ by one of each at most", v, w, x, y)
				return
			}
		}
		for range 2 * inLine {
			s.restock()
		}
		for _, c := range append(a, b...) {
			c.wantGrant("when all its permits have come")
		}
	}
}

// prioritiesComeFirst expects requests of a higher priority to be served first, however late they come.
func (s *subject) prioritiesComeFirst() {
	inLine := s.inLine()
	s.empties()
	low := s.lineUp(core.Flow{Key: "a", Priority: -1, Weight: 7})
	high := s.lineUp(core.Flow{Key: "a", Priority: 1})
	for range 4 * inLine {
		s.restock()
		if h, l := granted(high), granted(low); l > 0 && h < inLine {
			s.errorf("%d requests of priority -1 were granted while %d of priority 1 waited", l, inLine-h)
			return
		}
	}
	for _, c := range append(low, high...) {
		c.wantGrant("when all its permits have come")
	}
}

// orderIsSaid expects a limiter that reports its order to report the one that it was made with.
func orderIsSaid(s *subject) {
	l, ok := s.l.(interface{ QueueOrder() core.QueueOrder })
	if ok && s.QueueLimit > 0 && l.QueueOrder() != s.QueueOrder {
		s.errorf("QueueOrder() is %v, but the limiter is said to be %v", l.QueueOrder(), s.QueueOrder)
	}
}
