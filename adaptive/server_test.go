package adaptive_test

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/internal/adaptive/sampler"
)

// A simulation runs an adaptive limit in front of a server, in virtual time. The server has a number of slots and a
// first-in first-out queue, or shares its CPUs among all requests that are in it. Its service times are random, and
// requests come at a rate of their own. It is simulated event by event, so a minute of a busy server takes some
// milliseconds.

// Config describes a simulation.
type Config struct {
	Algorithm adaptive.Algorithm // nil: there is no limit
	Min, Max  int
	Initial   int

	Slots   func(t time.Duration) int                         // of the server; asked at each event
	Shared  bool                                              // slots are CPUs, that all requests share
	Service func(t time.Duration, r *rand.Rand) time.Duration // of one request, start at t
	Rate    func(t time.Duration) float64                     // requests a second that come; nil: Clients ask
	Clients func(t time.Duration) int                         // each asks again as soon as it is answered; nil: any number
	Observe func(t time.Duration, w Sample, limit int)        // after each sample; may be nil
	Refused func(t time.Duration)                             // each request that is rejected; may be nil
	Seed    uint64
	Overdue time.Duration // a sample that took longer is a drop to the algorithm, like AIMD's Timeout; 0: none is

	// Timeout is how long a client waits for an answer. One that comes later is a drop, and
	// no good; the server works on it all the same. 0: forever.
	Timeout time.Duration
}

// Sample is the measurement of one response.
type Sample struct {
	InFlight int
	Duration time.Duration
	Dropped  bool
}

// Result counts the requests of a simulation.
type Result struct {
	Good, Late, Rejected int
	Latencies            []time.Duration // of all that were answered, in their order
}

// Run simulates until the time or the number of samples is reached, whichever comes first;
// 0: no bound.
func Run(c Config, until time.Duration, samples int) Result {
	s := &state{Config: c, r: rand.New(rand.NewPCG(c.Seed, 1)), limit: c.Initial}
	s.arrive()
	for s.now <= until || until == 0 {
		if samples > 0 && s.done == samples {
			break
		}
		s.fill()
		e, ok := s.next()
		if !ok {
			break
		}
		s.now = e.at
		if e.arrival {
			s.arrived()
			s.arrive()
			continue
		}
		s.busy--
		s.ended(e.start)
	}
	return s.Result
}

type state struct {
	Config
	Result
	r        *rand.Rand
	now      time.Duration
	events   events
	shared   shared
	limit    int
	inFlight int
	busy     int
	queue    []time.Duration // at the server: when each was admitted
	done     int
	sampler  sampler.Sampler
}

type event struct {
	at, start time.Duration
	arrival   bool
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// next returns what happens next.
func (s *state) next() (e event, ok bool) {
	if len(s.shared.ends) > 0 {
		n := s.Slots(s.now)
		end := s.now + s.shared.next(n)
		if len(s.events) == 0 || end <= s.events[0].at {
			return s.shared.end(end), true
		}
		s.shared.serve(s.events[0].at-s.now, n)
	}
	if len(s.events) == 0 {
		return event{}, false
	}
	return heap.Pop(&s.events).(event), true
}

// arrive schedules the next request.
func (s *state) arrive() {
	if s.Rate == nil {
		return
	}
	wait := time.Duration(s.r.ExpFloat64() / s.Rate(s.now) * float64(time.Second))
	heap.Push(&s.events, event{at: s.now + wait, arrival: true})
}

// arrived admits a request, or rejects it.
func (s *state) arrived() {
	if s.Algorithm != nil && s.inFlight >= s.limit {
		s.Rejected++
		if s.Refused != nil {
			s.Refused(s.now)
		}
		return
	}
	s.admit()
}

func (s *state) admit() {
	s.inFlight++
	s.queue = append(s.queue, s.now)
}

// fill starts work on as many requests as the server can take. Without a Rate, it first admits as many
// as the limit and the number of clients allow.
func (s *state) fill() {
	for s.Rate == nil && s.inFlight < s.admissible() {
		s.admit()
	}
	for slots := s.Slots(s.now); (s.Shared || s.busy < slots) && len(s.queue) > 0; s.busy++ {
		service := s.Service(s.now, s.r)
		if s.Shared {
			s.shared.start(s.queue[0], service)
		} else {
			heap.Push(&s.events, event{at: s.now + service, start: s.queue[0]})
		}
		s.queue = s.queue[1:]
	}
}

// admissible returns how many may be in flight.
func (s *state) admissible() int {
	switch {
	case s.Clients == nil:
		return s.limit
	case s.Algorithm == nil:
		return s.Clients(s.now)
	}
	return min(s.limit, s.Clients(s.now))
}

// ended answers a request.
func (s *state) ended(start time.Duration) {
	took := s.now - start
	late := s.Timeout > 0 && took > s.Timeout
	if late {
		s.Late++
	} else {
		s.Good++
	}
	s.Latencies = append(s.Latencies, took)
	sample := Sample{
		InFlight: s.inFlight,
		Duration: took,
		Dropped:  late,
	}
	s.inFlight--
	s.done++
	if s.Algorithm != nil {
		s.learn(sample, took)
	}
	if s.Observe != nil {
		s.Observe(s.now, sample, s.limit)
	}
}

// learn gives a sample to the algorithm, as an adaptive.Concurrency does.
func (s *state) learn(e Sample, took time.Duration) {
	dropped := 0
	if e.Dropped || s.Overdue > 0 && took > s.Overdue {
		dropped = 1
	} else if !s.sampler.Add(e.InFlight, s.now-took, took) {
		return
	}
	w := s.sampler.Take(dropped)
	want := s.Algorithm.Next(s.limit, adaptive.Sample(w))
	s.limit = s.sampler.Move(s.limit, s.Min, s.Max, want, sampler.Restores(s.Algorithm), w, s.now)
}

// Exponential returns service times of an exponential distribution.
func Exponential(mean time.Duration) func(time.Duration, *rand.Rand) time.Duration {
	return func(_ time.Duration, r *rand.Rand) time.Duration {
		return time.Duration(r.ExpFloat64() * float64(mean))
	}
}

// Bimodal returns service times of which a share is long and the others are short.
func Bimodal(short, long time.Duration, share float64) func(time.Duration, *rand.Rand) time.Duration {
	return func(_ time.Duration, r *rand.Rand) time.Duration {
		if r.Float64() < share {
			return long
		}
		return short
	}
}

// Steady returns service times that are all the same.
func Steady(d time.Duration) func(time.Duration, *rand.Rand) time.Duration {
	return func(time.Duration, *rand.Rand) time.Duration { return d }
}
