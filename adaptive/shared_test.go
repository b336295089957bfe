package adaptive_test

import (
	"container/heap"
	"time"
)

// shared is a server whose CPUs are shared by all requests: each of n requests has C/n of a
// CPU, at most a whole one.
type shared struct {
	served time.Duration // CPU time of a request that was there from the start
	ends   events        // of the requests, by the value of served
}

// start has the server work on a request that was admitted then.
func (s *shared) start(admitted, service time.Duration) {
	heap.Push(&s.ends, event{at: s.served + service, start: admitted})
}

// slower returns by what factor n requests take longer than one alone.
func (s *shared) slower(cpus int) float64 {
	return max(1, float64(len(s.ends))/float64(cpus))
}

// next returns after which time the next request ends.
func (s *shared) next(cpus int) time.Duration {
	return time.Duration(float64(s.ends[0].at-s.served) * s.slower(cpus))
}

// serve lets d pass.
func (s *shared) serve(d time.Duration, cpus int) {
	s.served += time.Duration(float64(d) / s.slower(cpus))
}

// end returns the request that has ended.
func (s *shared) end(now time.Duration) event {
	e := heap.Pop(&s.ends).(event)
	s.served = e.at // exactly
	e.at = now
	return e
}
