package limitertest

import "github.com/sluice-go/sluice/core"

// fill makes the empty queue full, with as few waiters as can be, and returns them.
func (s *subject) fill() []*call { return s.fillUp(s.queue, s.Limit) }

// fillUp makes requests for n permits wait, with at most each permits in a request.
func (s *subject) fillUp(n, each int) (waiters []*call) {
	for n > 0 {
		c := s.waiter(min(n, each), "with room in the queue")
		waiters = append(waiters, c)
		n -= c.n
	}
	return waiters
}

// wantWaiting wants all to wait.
func wantWaiting(when string, calls ...*call) {
	for _, c := range calls {
		c.wantWait(when)
	}
}

// nobodyWaits wants an Acquire that is not served at once to be rejected at once.
func nobodyWaits(s *subject) {
	s.empties()
	before, _ := s.counts()
	const when = "with nothing available, and no queue"
	s.acquiresNow(s.ctx, 1, when).wantReject(when)
	s.counted(before, 0, 1, "an Acquire with no queue")
}

// queueCounts wants the queue to count permits, not requests, up to the queue limit.
func queueCounts(s *subject) {
	s.empties()
	before, _ := s.counts()
	waiters := s.fill()
	wantWaiting("in a queue that is just full", waiters...)
	s.queues(s.queue, "in a queue that is just full")
	s.counted(before, 0, 0, "waiting")
	extra := s.acquires(1)
	rejected := extra
	if s.QueueOrder == core.NewestFirst {
		rejected = waiters[0]
	}
	if extra.waits() && waiters[0].waits() {
		s.faultf("more than %d permits wait, want that to be the limit", s.queue)
	}
	s.counted(before, 0, 1, "one more than the queue holds")
	rejected.wantReject("with a full queue")
}

// fullQueueRejects wants a new request to be rejected at once while the queue is full, and the waiters
// to continue to wait.
func fullQueueRejects(s *subject) {
	s.empties()
	waiters := s.fill()
	s.acquires(1).wantReject("with a full queue")
	wantWaiting("after a newcomer was rejected", waiters...)
	s.queues(s.queue, "after a newcomer was rejected")
}

// fullQueueEvicts wants a new request to evict the oldest waiters, whole, one by one, and no more than
// it takes.
func fullQueueEvicts(s *subject) {
	s.empties()
	waiters := s.fillUp(min(s.queue, 3), 1)
	waiters = append(waiters, s.fillUp(s.queue-len(waiters), s.Limit)...)
	before, _ := s.counts()
	first := s.acquires(1)
	first.wantWait("that evicts the oldest")
	waiters[0].wantReject("when evicted")
	wantWaiting("when an older one is evicted", waiters[1:]...)
	s.counted(before, 0, 1, "an eviction")
	s.queues(s.queue, "after an eviction")
	if len(waiters) < 3 || s.Limit < 2 {
		return
	}
	s.acquires(2).wantWait("that evicts the two oldest")
	waiters[1].wantReject("when evicted")
	waiters[2].wantReject("when evicted")
	wantWaiting("when older ones are evicted", append(waiters[3:], first)...)
	s.queues(s.queue, "after two evictions")
}

// tooBigEvictsNobody wants a new request that would not fit into the empty queue to be rejected.
func tooBigEvictsNobody(s *subject) {
	s.empties()
	waiters := s.fill()
	s.acquires(s.queue + 1).wantReject("with more permits than the queue limit")
	wantWaiting("after a newcomer was rejected", waiters...)
}

// nobodyOvertakes wants new requests to be rejected or to queue while a request waits, even if they
// would fit.
func nobodyOvertakes(s *subject) {
	s.takes(s.Limit - 1)
	w := s.waiter(2, "with one permit left")
	s.refused(1, "with one permit left, and a waiter for two")
	c := s.acquires(1)
	if s.queue >= 3 {
		c.wantWait("with one permit left, and a waiter for two ahead")
	} else {
		c.wantReject("with one permit left, and a waiter for two that fills the queue")
	}
	w.wantWait("after newcomers")
	s.has(1, "after newcomers that did not overtake")
}

// newcomerGoesFirst wants a new request that fits to be served at once, whatever is queued.
func newcomerGoesFirst(s *subject) {
	s.takes(s.Limit - 1)
	w := s.waiter(2, "with one permit left")
	s.takes(1)
	w.wantWait("after a newcomer was served")
	s.renew()
	s.takes(s.Limit - 1)
	w = s.waiter(2, "with one permit left")
	s.acquires(1).wantGrant("with one permit left, and a waiter for two")
	w.wantWait("after a newcomer was served")
}

// servedInOrder wants the oldest or the newest of two waiters to be served if both do not fit.
func servedInOrder(s *subject) {
	a, b, free := s.Limit, 1, func() { s.release() }
	switch {
	case s.Holds && s.queue >= 2: // a permit comes back, and two want it
		a = 1
		l := s.takes(1)
		if s.Limit > 1 {
			s.takes(s.Limit - 1)
		}
		free = l.Release
	default:
		s.empties()
	}
	older, newer := s.waiter(a, "with nothing available"), s.waiter(b, "with nothing available")
	free()
	s.refill()
	first, second := older, newer
	if s.QueueOrder == core.NewestFirst {
		first, second = newer, older
	}
	first.wantGrant("when its turn comes")
	if first.granted() && !second.waits() && !second.at.After(first.at) {
		s.faultf("Acquire(%d) before its turn %v, want it to wait", second.n, second)
	}
	s.restock()
	s.restock()
	second.wantGrant("when its turn comes")
}

// servingStops wants a waiter that fits to wait while the one before it does not fit.
func servingStops(s *subject) {
	one := s.takes(1)
	s.takes(s.Limit - 1)
	first, second := 2, 1
	if s.QueueOrder == core.NewestFirst {
		first, second = second, first
	}
	a, b := s.waiter(first, "with nothing available"), s.waiter(second, "with nothing available")
	one.Release()
	s.refill()
	wantWaiting("with one permit back, and the next in turn wanting two", a, b)
	s.has(1, "when the next in turn wants two")
	s.restock()
	s.restock()
	a.wantGrant("when all is back")
	b.wantGrant("when all is back")
}
