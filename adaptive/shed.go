package adaptive

import (
	"container/list"
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
)

// ShedOptions are the terms of a [Shed].
type ShedOptions struct {
	// Name is the limiter's, for metadata and errors. "": none.
	Name string

	// Probe returns what is watched: a share, a number of seconds, whatever Above is in. Two
	// calls never overlap. It should return soon: a caller waits for it. It must not ask this
	// Shed for permits: for the first reading that is to wait for itself. NaN says nothing
	// and leaves all as it is. Required; see [CPU], [SchedulerLatency] and [Heap].
	Probe func() float64

	// Above is the reading from which on nothing is granted. Required, above 0.
	Above float64

	// Resume is the reading below which permits are granted again: some way below Above it
	// keeps the limiter from opening and shutting at every reading. 0: Above, which is the
	// most that it may be.
	Resume float64

	// Every is the age at which a reading is stale. 0: 100 ms. Shorter keeps latency lower, but
	// should be several times what one request costs of a processor: see [Shed].
	Every time.Duration

	// QueueLimit is how many permits may wait for the reading to fall. 0: nobody waits.
	QueueLimit int

	// QueueOrder is who makes room in a full queue, and who is served first.
	QueueOrder core.QueueOrder
}

const defaultEvery = 100 * time.Millisecond

func (o ShedOptions) validate() error {
	f := faults{options: "ShedOptions"}
	f.must(o.Probe != nil, "Probe", "nil", "a function")
	f.must(o.Above > 0, "Above", o.Above, "above 0")
	f.must(o.Resume >= 0 && !(o.Resume > o.Above), "Resume", o.Resume, "from 0 to Above")
	f.must(o.Every >= 0, "Every", o.Every, "at least 0")
	f.must(o.QueueLimit >= 0, "QueueLimit", o.QueueLimit, "at least 0")
	f.must(o.QueueOrder <= core.NewestFirst, "QueueOrder", o.QueueOrder, "oldest-first or newest-first")
	return f.err()
}

// Shed refuses, or makes wait, while a probe of the process or of the machine reads too
// much: it sheds load. While the reading is below, it grants any number of permits, and its
// leases hold nothing; so put it in front of a limiter that counts, in a chain.
//
// All that comes between two readings is admitted, or none of it. So while n times as much is
// asked as can be done, each spell of grants lets in n times Every of work, and requests
// wait for up to about n-1 times Every: 40 ms at three times the load with an Every of 20 ms.
// Then the processors are idle from when that is done until the next reading; the longer
// Every is than the work of a request, the fewer are refused in vain. And if the probe misses
// the overload nothing bounds what is under way: hence the limiter behind it. The program
// examples/shed shows all three.
//
// The probe is read by the caller that finds the last reading stale, one at a time; callers
// that come meanwhile go by the last reading, and the first ones ever wait for the first.
// While somebody waits for the reading to fall, a timer has it read. So it has no goroutine,
// no timer while nobody waits, and an idle one reads nothing. A panic of the probe goes to
// the caller that read it, or to one that waits if the timer did; the next caller reads again.
//
// It keeps the rules of all limiters: see [core.Limiter]. Its limit is math.MaxInt, and it is a
// [core.Reporter] and an [io.Closer], safe for concurrent use. Make it with [NewShed]; the
// zero value refuses with [core.ErrClosed].
type Shed struct {
	o    ShedOptions
	base time.Time  // instants count from here
	one  core.Lease // of one permit

	// The last reading: its instant, in nanoseconds, and in the lowest bit whether permits
	// are granted. unread: there is none, or the limiter is closed. Set under the mutex.
	last              atomic.Int64
	granted, rejected atomic.Uint64

	mu      sync.Mutex // a leaf; not held while the probe runs
	shut    bool
	closed  bool
	reading bool          // somebody runs the probe
	first   chan struct{} // closed when the first reading is done; nil: nobody is at it
	queue   list.List     // of *waiter that want permits, the oldest in front
	probes  list.List     // of *waiter that want to know
	queued  int           // permits in queue
	timer   *time.Timer   // nil: nobody waits
}

const unread = math.MinInt64

// NewShed returns a limiter that has read nothing yet, or what is wrong with the options,
// all at once.
func NewShed(o ShedOptions) (*Shed, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Resume == 0 {
		o.Resume = o.Above
	}
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	s := &Shed{o: o, base: time.Now(), one: core.Grant(1, nil)}
	if o.Name != "" {
		s.one = s.one.With(core.LimiterName.With(o.Name))
	}
	s.last.Store(unread)
	return s, nil
}

// TryAcquire grants if the reading is below the threshold. It waits for nothing but the
// probe, if it is this call that reads it, or if there is no reading at all yet.
func (s *Shed) TryAcquire(permits int) core.Lease {
	if permits < 0 {
		return core.Refuse(core.ErrNegativePermits)
	}
	if s.grants() {
		return s.grant(permits)
	}
	s.refresh(nil)
	s.mu.Lock()
	closed, shut := s.closed || s.o.Probe == nil, s.shut
	s.mu.Unlock()
	switch {
	case closed:
		return core.Refuse(core.ErrClosed)
	case shut:
		return s.reject(permits, "permits exhausted")
	}
	return s.grant(permits)
}

// Acquire grants if the reading is below the threshold; else it waits until it is, if the
// queue has room. A done ctx, then or later, ends it with ctx.Err(), unchanged.
func (s *Shed) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if permits < 0 {
		return core.Refuse(core.ErrNegativePermits), core.ErrNegativePermits
	}
	err := ctx.Err()
	if err == nil && s.grants() {
		return s.grant(permits), nil
	}
	if err == nil {
		s.refresh(ctx.Done)
		err = ctx.Err() // the probe may have taken its time
	}
	if err != nil {
		return core.Refuse(err), err
	}
	l, w := s.decide(permits)
	if w != nil {
		return s.await(ctx, w)
	}
	return l, l.Err()
}

func (s *Shed) grant(n int) core.Lease {
	s.granted.Add(1)
	switch {
	case n == 1:
		return s.one // it holds nothing, so that all may have the same
	case s.o.Name == "":
		return core.Grant(n, nil)
	}
	return core.Grant(n, nil, core.LimiterName.With(s.o.Name))
}

func (s *Shed) reject(n int, reason string) core.Lease {
	s.rejected.Add(1)
	l := core.Refuse(&core.RejectedError{Limiter: s.o.Name, Permits: n, Reason: reason})
	if s.o.Name == "" {
		return l.With(core.ReasonPhrase.With(reason))
	}
	return l.With(core.ReasonPhrase.With(reason), core.LimiterName.With(s.o.Name))
}

// Available is math.MaxInt if the last reading was below, or there is none yet; else 0. It
// does not read the probe.
func (s *Shed) Available() int { return s.Statistics().Available }

// Statistics returns the limiter's counts. It does not read the probe. They go on after
// Close.
func (s *Shed) Statistics() core.Statistics {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := core.Statistics{Limit: math.MaxInt, Queued: s.queued, Granted: s.granted.Load(), Rejected: s.rejected.Load()}
	if !s.shut {
		st.Available = math.MaxInt
	}
	return st
}

// Close ends the wait of all who wait with [core.ErrClosed], and refuses from then on. It
// returns nil, however often it is called.
func (s *Shed) Close() error {
	s.mu.Lock()
	s.closed = true
	s.last.Store(unread)
	if s.first != nil {
		close(s.first)
		s.first = nil
	}
	ended := s.serveLocked(func(*waiter) core.Lease { return core.Refuse(core.ErrClosed) })
	s.setTimerLocked()
	s.mu.Unlock()
	wake(ended)
	return nil
}

// String returns a line for a person: the name, and the statistics.
func (s *Shed) String() string { return describe("shed", s.o.Name, s.Statistics()) }
