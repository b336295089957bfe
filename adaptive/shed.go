package adaptive

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Shed sheds load: it rejects requests, or makes them wait, while a sensor of the process or the machine
// reads too much. While the reading is below the threshold it grants any number of permits, and its
// leases hold nothing. Therefore put it in front of a limiter that counts, in a chain.
//
// It admits either everything that comes between two readings or nothing. If demand is n times what can
// be done, it admits n times Every of work between two readings, and requests wait for up to about n-1
// times Every: 40 ms at three times the load with an Every of 20 ms. When that work is done, the
// processors are idle until the next reading; the longer Every is than the work of a request, the fewer
// requests are rejected in vain. If the sensor misses the overload, nothing bounds what is under way:
// hence the limiter behind it.
//
// A caller that finds the last reading stale reads the sensor, one caller at a time. Callers that come in
// the meantime go by the last reading; the very first ones wait for the first reading. While a request
// waits for the reading to fall, a timer reads the sensor. A Shed has no goroutine, and no timer while
// nobody waits; an idle one reads nothing. A panic of the sensor goes to the caller that read it; on the
// timer's goroutine, it ends the program.
//
// A Shed keeps the rules of all limiters: see [core.Limiter]. Its limit is math.MaxInt, and it is a
// [core.QuietTrier], a [core.Reporter] and an [io.Closer], safe for concurrent use. Make it with
// [NewShed]; the zero value refuses with [core.ErrClosed].
type Shed struct {
	o    ShedOptions
	base time.Time       // instants count from here
	name []core.Metadata // of the leases; empty without a name
	one  core.Lease      // of one permit, which all may share as it holds nothing

	last    atomic.Pointer[reading] // set under mu; nil: none yet
	granted atomic.Uint64           // requests that the queue has not seen

	// Requests that the reading does not let pass go to the queue, to wait there or to be rejected. Its
	// limit is 0 while the reading is too high, and math.MaxInt otherwise.
	queue *core.ConcurrencyLimiter
	limit backdoor.Watched[core.Lease] // sets the queue's limit

	mu      sync.Mutex // taken before the queue's; not held while the sensor is read
	closed  bool
	turn    chan struct{} // of the caller that reads the sensor, closed at its end; nil: nobody reads
	waiting int           // requests in the queue
	timer   *time.Timer   // nil: no request waits
}

// reading is a reading of the sensor, compared with the thresholds.
type reading struct {
	at   time.Duration
	high bool // nothing is granted
}

// NewShed returns a limiter that has read nothing yet. If options are invalid the error names
// each.
func NewShed(o ShedOptions) (*Shed, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	queue, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: o.Name, PermitLimit: math.MaxInt, QueueLimit: o.QueueLimit, QueueOrder: o.QueueOrder,
	})
	if err != nil {
		return nil, err
	}
	s := &Shed{o: o, base: time.Now(), queue: queue}
	if o.Name != "" {
		s.name = []core.Metadata{core.LimiterName.With(o.Name)}
	}
	s.one = core.Grant(1, nil, s.name...)
	s.limit, _ = backdoor.Core[core.Lease]().Watch(queue, noHook{})
	return s, nil
}

// noHook is for the queue's leases: a Shed does not look at their ends.
type noHook struct{}

func (noHook) Ended(backdoor.Cause, backdoor.End) {}

// TryAcquire grants if the reading is below the threshold. It blocks only to read the sensor, or
// while another caller takes the very first reading.
func (s *Shed) TryAcquire(permits int) core.Lease {
	switch {
	case permits < 0:
		return core.Fail(core.ErrNegativePermits)
	case s.queue == nil:
		return core.Fail(core.ErrClosed)
	case s.grants(never):
		return s.grant(permits)
	}
	return s.answer(s.queue.TryAcquire(permits), permits)
}

// TryQuietly is TryAcquire, but a rejection leaves no trace: see [core.TryQuietly].
func (s *Shed) TryQuietly(permits int) (core.Lease, bool) {
	if s.queue == nil || permits < 0 || !s.grants(never) {
		return core.Lease{}, false
	}
	return s.grant(permits), true
}

// Acquire grants if the reading is below the threshold; otherwise it waits until it is, if the
// queue has room. If ctx is done, before or during the wait, it returns ctx.Err(), unchanged.
func (s *Shed) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	switch err := ctx.Err(); {
	case permits < 0:
		return core.Fail(core.ErrNegativePermits), core.ErrNegativePermits
	case err != nil:
		return core.Fail(err), err
	case s.queue == nil:
		return core.Fail(core.ErrClosed), core.ErrClosed
	}
	grants := s.grants(ctx.Done)
	if err := ctx.Err(); err != nil { // reading may have taken its time
		return core.Fail(err), err
	}
	if grants {
		return s.grant(permits), nil
	}
	lease := s.answer(s.wait(ctx, permits), permits)
	return lease, lease.Err()
}

// wait waits in the queue, and for that time keeps the timer.
func (s *Shed) wait(ctx context.Context, permits int) core.Lease {
	s.addWaiting(1)
	defer s.addWaiting(-1)
	lease, _ := s.queue.Acquire(ctx, permits)
	return lease
}

func (s *Shed) addWaiting(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += n
	if s.waiting == 0 || s.timer == nil {
		s.setTimerLocked()
	}
}

// answer turns a lease of the queue's into one of the Shed's, which holds nothing and knows no limit.
func (s *Shed) answer(l core.Lease, permits int) core.Lease {
	if l.Acquired() {
		l.Release() // the queue has counted it
		return s.lease(permits)
	}
	reason, rejected := core.ReasonPhrase.From(l)
	if !rejected {
		return core.Fail(l.Err())
	}
	rejection := core.Fail(&core.RejectedError{Limiter: s.o.Name, Permits: permits, Reason: reason})
	return rejection.With(core.ReasonPhrase.With(reason)).With(s.name...)
}

func (s *Shed) grant(permits int) core.Lease {
	s.granted.Add(1)
	return s.lease(permits)
}

func (s *Shed) lease(permits int) core.Lease {
	if permits == 1 {
		return s.one
	}
	return core.Grant(permits, nil, s.name...)
}

// QueueOrder returns the order in which waiters are served: ShedOptions.QueueOrder.
func (s *Shed) QueueOrder() core.QueueOrder { return s.o.QueueOrder }

// Available returns math.MaxInt if the last reading was below the threshold, or there is none yet;
// else 0. It does not read the sensor.
func (s *Shed) Available() int { return s.Statistics().Available }

// Statistics returns the limiter's counts. It does not read the sensor. It goes on counting after
// Close.
func (s *Shed) Statistics() core.Statistics {
	if s.queue == nil {
		return core.Statistics{}
	}
	granted := s.granted.Load()
	st := s.queue.Statistics()
	st.Granted += granted
	st.Available, st.Limit = st.Limit, math.MaxInt // the queue's limit is 0 or math.MaxInt
	return st
}

// Close ends every wait with [core.ErrClosed] and refuses from then on. It returns nil, however
// often it is called.
func (s *Shed) Close() error {
	if s.queue == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.last.Store(&reading{high: true}) // so that all go to the queue, which refuses
	s.endTurnLocked()
	return s.queue.Close()
}

// String returns a line for a person: the name and the statistics.
func (s *Shed) String() string { return describe("shed", s.o.Name, s.Statistics()) }
