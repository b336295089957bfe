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

// Shed sheds load: it rejects requests, or makes them wait, while the reading of a sensor of the process
// or the machine is too high. While the reading is below the threshold, it grants any number of permits,
// and its leases hold nothing. Therefore chain it with a limiter that counts permits.
//
// Between two readings, a Shed admits either all requests or none. If the demand is n times the capacity,
// it admits n times Interval of work between two readings, and requests wait for up to about n-1 times
// Interval: 40 ms at three times the capacity with an Interval of 20 ms. When that work is done, the CPUs
// are idle until the next reading. The longer Interval is compared with the work of a request, the fewer
// requests are rejected unnecessarily. If the sensor misses an overload, the Shed does not bound the work
// in flight; that is what the other limiter of the chain is for.
//
// A caller that finds the last reading stale reads the sensor, one caller at a time. Other callers use
// the last reading in the meantime; only the first callers wait, for the first reading. While a request
// waits for the reading to fall, a timer reads the sensor. A Shed has no goroutine, has no timer while
// no request waits, and does not read the sensor while it is idle. A panic of the sensor goes to the
// caller that reads it; on the timer's goroutine, it terminates the program.
//
// A Shed follows the rules of all limiters: see [core.Limiter]. Its limit is math.MaxInt. It is a
// [core.QuietTrier], a [core.Reporter] and an [io.Closer], and safe for concurrent use. Create it with
// [NewShed]; requests to the zero value fail with [core.ErrClosed].
type Shed struct {
	waits

	o    ShedOptions
	base time.Time       // times are relative to it
	name []core.Metadata // name of the leases; empty without a name
	one  core.Lease      // lease of one permit, which all requests can share because it holds nothing

	last    atomic.Pointer[reading] // set under mu; nil until the first reading
	granted atomic.Uint64           // requests that were granted without the queue

	// Requests that the reading does not let pass go to the queue, where they wait or are rejected. Its
	// limit is 0 while the reading is too high, and math.MaxInt otherwise.
	queue *core.ConcurrencyLimiter
	limit backdoor.Watched[core.Lease] // sets the queue's limit

	mu      sync.Mutex // locked before the queue's; not held while the sensor is read
	closed  bool
	turn    chan struct{} // closed when the caller that reads the sensor is done; nil if no caller reads it
	waiting int           // number of requests in the queue
	timer   *time.Timer   // nil while no request waits
}

// reading is a reading of the sensor, compared with the thresholds.
type reading struct {
	at   time.Duration
	high bool // whether requests are not granted
}

// NewShed returns a limiter without a reading, or an error that lists all invalid options.
func NewShed(o ShedOptions) (*Shed, error) {
	if err := o.setDefaults(); err != nil {
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
	s.waits = backdoor.WaitsBy(s, s.acquireWaiting)
	s.limit, _ = backdoor.Core[core.Limiter, core.Lease]().Watch(queue, noHook{})
	return s, nil
}

// noHook ignores the ends of the queue's leases.
type noHook struct{}

func (noHook) Ended(backdoor.Cause, backdoor.End) {}

// TryAcquire grants the request if the reading is below the threshold. It blocks only to read the sensor,
// or while another caller takes the first reading.
func (s *Shed) TryAcquire(permits int) core.Lease {
	switch {
	case permits < 0:
		return core.Fail(core.ErrNegativePermits)
	case s.queue == nil:
		return core.Fail(core.ErrClosed)
	case s.grants(never):
		return s.grant(permits)
	}
	return s.convert(s.queue.TryAcquire(permits), permits)
}

// TryQuietly is like TryAcquire, but a rejection is not counted and has no reason: see
// [core.TryQuietly].
func (s *Shed) TryQuietly(permits int) (core.Lease, bool) {
	if s.queue == nil || permits < 0 || !s.grants(never) {
		return core.Lease{}, false
	}
	return s.grant(permits), true
}

// Acquire grants the request if the reading is below the threshold. Otherwise it waits for that, if the
// queue has room. If ctx is done, before or during the wait, it returns ctx.Err(), unchanged.
func (s *Shed) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return s.acquire(ctx, permits, false)
}

// acquireWaiting is like Acquire, but for a primitive of this module, which waits whatever QueueLimit is.
func (s *Shed) acquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return s.acquire(ctx, permits, true)
}

// acquire is Acquire, or acquireWaiting if beyond is set.
func (s *Shed) acquire(ctx context.Context, permits int, beyond bool) (core.Lease, error) {
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
	lease := s.convert(s.wait(ctx, permits, beyond), permits)
	return lease, lease.Err()
}

// wait waits in the queue, and keeps the timer running meanwhile.
func (s *Shed) wait(ctx context.Context, permits int, beyond bool) (lease core.Lease) {
	s.addWaiting(1)
	defer s.addWaiting(-1)
	if beyond {
		lease, _ = waiting(ctx, s.queue, permits)
	} else {
		lease, _ = s.queue.Acquire(ctx, permits)
	}
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

// convert turns a lease of the queue into one of the Shed, which holds nothing and reports no limit.
func (s *Shed) convert(l core.Lease, permits int) core.Lease {
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

// Available returns math.MaxInt if the last reading was below the threshold or there is none yet, and 0
// otherwise. It does not read the sensor.
func (s *Shed) Available() int { return s.Statistics().Available }

// Statistics returns the limiter's counts. It does not read the sensor. It may be called after Close.
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

// Close ends all waits with [core.ErrClosed]; later requests fail with it too. Close always returns nil,
// and may be called again.
func (s *Shed) Close() error {
	if s.queue == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.last.Store(&reading{high: true}) // so that all requests go to the queue, which fails them
	s.endTurnLocked()
	return s.queue.Close()
}

// String returns a human-readable line: the name and the statistics.
func (s *Shed) String() string { return describe("shed", s.o.Name, s.Statistics()) }
