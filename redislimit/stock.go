package redislimit

import "time"

// stock is what was fetched ahead, and how much to fetch. The engine's mutex guards it.
type stock struct {
	n     int64
	stamp stamp     // of its grant
	until time.Time // then it is worth nothing

	used      int64 // permits granted since the last call
	called    time.Time
	timer     *time.Timer // nil: none is set; gives back what is not spent
	returning bool        // the next call gives it back, whatever else it does
}

const (
	aheadFor  = 10 * time.Millisecond  // how long what is fetched by itself should last
	unspentBy = 500 * time.Millisecond // then what is unspent is given back
)

// left returns how many permits are there.
func (s *stock) left(now time.Time) int {
	if s.n == 0 || !now.Before(s.until) {
		return 0
	}
	return int(s.n)
}

// spend takes n permits if they are there; a probe needs one, and takes none.
func (s *stock) spend(n int, now time.Time) bool {
	if s.n == 0 || s.left(now) < max(n, 1) {
		return false
	}
	s.n -= int64(n)
	return true
}

// takeBack empties the stock into an operation that gives it back; nil: it is empty.
func (s *stock) takeBack(now time.Time) *op {
	n := s.left(now)
	s.n = 0
	if n == 0 {
		return nil
	}
	return giveBack(int64(n), s.stamp)
}

// putBack undoes takeBack.
func (s *stock) putBack(o *op) { s.n = o.n }

// asked notes that so many permits were granted by a call.
func (s *stock) asked(n int64) { s.used += n }

// fill puts in what a call fetched ahead.
func (s *stock) fill(c *call, r reply, a answer) {
	if a.status <= 0 {
		return
	}
	// By the clock of before the call was sent: the server's instant was not earlier.
	ends := a.reset
	if c.t.kind != kindBucket {
		ends = r.ends
	}
	s.n, s.stamp, s.until = a.status, a.stamp, c.sent.Add(lasts(ends))
}

// aheadLocked returns how many permits the call is to fetch ahead.
func (e *engine) aheadLocked(c *call, now time.Time) int64 {
	s := &e.stock
	used, passed := s.used, now.Sub(s.called)
	s.used, s.called = 0, now
	if !e.t.timed() || e.closed || e.shared.Ahead == 1 || !e.queue.empty() {
		return 0
	}
	asked, waits := int64(0), false
	for _, o := range c.ops {
		if o.kind == opTake {
			asked += o.n
			waits = waits || o.n > 0
		}
	}
	if !waits {
		return 0
	}
	if e.shared.Ahead > 1 {
		return max(int64(e.shared.Ahead)-asked, 0)
	}
	share := e.t.perSecond() * aheadFor.Seconds()
	if passed < aheadFor {
		return int64(min(float64(used)*float64(aheadFor)/float64(max(passed, 1)), share))
	}
	return int64(min(float64(used)*float64(aheadFor)/float64(passed), share))
}

// stockTimerLocked has what is unspent given back in time.
func (e *engine) stockTimerLocked() {
	s := &e.stock
	if s.n > 0 && s.timer == nil && !e.closed {
		s.timer = time.AfterFunc(unspentBy, e.giveStockBack)
	}
}

// giveStockBack is what the stock's timer does.
func (e *engine) giveStockBack() {
	e.mu.Lock()
	e.stock.timer = nil
	if e.stock.left(time.Now()) > 0 {
		e.stock.returning = true
		e.callLocked()
	}
	e.unlock()
}
