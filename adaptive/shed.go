package adaptive

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Shed refuses requests, or has them wait, while a sensor of the process or the machine reads
// too much: it sheds load. While the reading is below the threshold it grants any number of permits,
// and its leases hold nothing; so put it in front of a limiter that counts, in a chain.
//
// All that comes between two readings is admitted, or none of it. While demand is n times what can
// be done, each spell of grants lets in n times Every of work, and requests
// wait for up to about n-1 times Every: 40 ms at three times the load with an Every of 20 ms.
// Then the processors are idle from when that is done until the next reading; the longer
// Every is than the work of a request, the fewer are refused in vain. And if the sensor misses
// the overload nothing bounds what is under way: hence the limiter behind it. The program
// examples/shed shows all three.
//
// The caller that finds the last reading stale reads the sensor, one at a time; callers
// that come in the meantime go by the last reading, and the very first ones wait for the first.
// While a request waits for the reading to fall, a timer has it read. It has no goroutine,
// no timer while nobody waits, and an idle one reads nothing. A panic of the sensor goes to
// the caller that read it; on the timer's goroutine, it ends the program.
//
// It keeps the rules of all limiters: see [core.Limiter]. Its limit is math.MaxInt, and it is a
// [core.QuietTrier], a [core.Reporter] and an [io.Closer], safe for concurrent use. Make it with [NewShed]; the
// zero value refuses with [core.ErrClosed].
type Shed struct {
	o    ShedOptions
	base time.Time  // instants count from here
	one  core.Lease // of one permit, which all may share as it holds nothing

	// While the reading is too high requests go to inner, for its queue: its limit is 1 then, and
	// the permit is taken. Otherwise its limit is math.MaxInt, and requests wait for nothing.
	inner *core.ConcurrencyLimiter
	moved backdoor.Watched[core.Lease] // inner's limit

	// The last reading: its instant, in nanoseconds, and in the lowest bit whether permits
	// are granted. unread: there is none, or the limiter is closed. Set under the mutex.
	last    atomic.Int64
	granted atomic.Uint64 // without inner

	mu      sync.Mutex // taken before inner's; not held while the sensor is read
	closed  bool
	gate    core.Lease    // inner's only permit, while the reading is too high
	gates   uint64        // that inner has granted
	reading chan struct{} // somebody reads the sensor; closed at the end. nil: nobody does
	waiting int           // requests that wait in inner
	timer   *time.Timer   // nil: no request waits
}

const unread = math.MinInt64

// NewShed returns a limiter that has read nothing yet. If options are invalid the error names
// each.
func NewShed(o ShedOptions) (*Shed, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	inner, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: o.Name, PermitLimit: math.MaxInt, QueueLimit: o.QueueLimit, QueueOrder: o.QueueOrder,
	})
	if err != nil {
		return nil, err
	}
	s := &Shed{o: o, base: time.Now(), one: core.Grant(1, nil), inner: inner}
	s.moved, _ = backdoor.Core[core.Lease]().Watch(inner, noHook{})
	if o.Name != "" {
		s.one = s.one.With(core.LimiterName.With(o.Name))
	}
	s.last.Store(unread)
	return s, nil
}

// noHook is the hook of the leases of inner that are watched: none are.
type noHook struct{}

func (noHook) Ended(backdoor.Cause, backdoor.End) {}

// TryAcquire grants if the reading is below the threshold. It blocks only to read the sensor, or
// while somebody else takes the very first reading.
func (s *Shed) TryAcquire(permits int) core.Lease {
	if s.inner == nil {
		var zero core.ConcurrencyLimiter
		return zero.TryAcquire(permits)
	}
	if permits < 0 {
		return core.Refuse(core.ErrNegativePermits)
	}
	if s.grants() {
		return s.grant(permits)
	}
	s.refresh(nil)
	if s.open() {
		return s.grant(permits)
	}
	return s.answer(s.inner.TryAcquire(permits), permits)
}

// TryQuietly is TryAcquire, but a rejection leaves no trace: see [core.TryQuietly].
func (s *Shed) TryQuietly(permits int) (core.Lease, bool) {
	if s.inner == nil || permits < 0 {
		return core.Lease{}, false
	}
	if s.grants() {
		return s.grant(permits), true
	}
	s.refresh(nil)
	if !s.open() {
		return core.Lease{}, false
	}
	return s.grant(permits), true
}

// Acquire grants if the reading is below the threshold; else it waits until it is, if the
// queue has room. If ctx is done, before or during the wait, it returns ctx.Err(), unchanged.
func (s *Shed) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if s.inner == nil {
		var zero core.ConcurrencyLimiter
		return zero.Acquire(ctx, permits)
	}
	if permits < 0 {
		return core.Refuse(core.ErrNegativePermits), core.ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return core.Refuse(err), err
	}
	if s.grants() {
		return s.grant(permits), nil
	}
	s.refresh(ctx.Done)
	if err := ctx.Err(); err != nil { // to read may have taken its time
		return core.Refuse(err), err
	}
	if s.open() {
		return s.grant(permits), nil
	}
	lease := s.answer(s.wait(ctx, permits), permits)
	return lease, lease.Err()
}

// wait waits in inner, and for that time keeps the timer.
func (s *Shed) wait(ctx context.Context, permits int) core.Lease {
	s.mu.Lock()
	s.waiting++
	if s.timer == nil {
		s.setTimerLocked()
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.waiting--
		if s.waiting == 0 {
			s.setTimerLocked()
		}
		s.mu.Unlock()
	}()
	lease, _ := s.inner.Acquire(ctx, permits)
	return lease
}

// answer turns a lease of inner's into one of the Shed's, which holds nothing and knows no limit.
func (s *Shed) answer(l core.Lease, permits int) core.Lease {
	if l.Acquired() {
		l.Release() // inner has counted it
		return s.lease(permits)
	}
	var r *core.RejectedError
	if !errors.As(l.Err(), &r) {
		return core.Refuse(l.Err())
	}
	answer := core.Refuse(&core.RejectedError{Limiter: s.o.Name, Permits: permits, Reason: r.Reason})
	answer = answer.With(core.ReasonPhrase.With(r.Reason))
	if s.o.Name != "" {
		answer = answer.With(core.LimiterName.With(s.o.Name))
	}
	return answer
}

func (s *Shed) grant(permits int) core.Lease {
	s.granted.Add(1)
	return s.lease(permits)
}

func (s *Shed) lease(permits int) core.Lease {
	switch {
	case permits == 1:
		return s.one
	case s.o.Name == "":
		return core.Grant(permits, nil)
	}
	return core.Grant(permits, nil, core.LimiterName.With(s.o.Name))
}

// QueueOrder returns the order in which waiters are served: ShedOptions.QueueOrder.
func (s *Shed) QueueOrder() core.QueueOrder { return s.o.QueueOrder }

// Available returns math.MaxInt if the last reading was below the threshold, or there is none yet;
// else 0. It does not read the sensor.
func (s *Shed) Available() int { return s.Statistics().Available }

// Statistics returns the limiter's counts. It does not read the sensor. It goes on counting after
// Close.
func (s *Shed) Statistics() core.Statistics {
	if s.inner == nil {
		return core.Statistics{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.inner.Statistics()
	st.Limit, st.Available = math.MaxInt, 0
	st.Granted += s.granted.Load() - s.gates
	if !s.gate.Acquired() {
		st.Available = math.MaxInt
	}
	return st
}

// Close ends every wait with [core.ErrClosed] and refuses from then on. It returns nil, however
// often it is called.
func (s *Shed) Close() error {
	if s.inner == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.last.Store(unread)
	if s.reading != nil {
		close(s.reading)
		s.reading = nil
	}
	return s.inner.Close()
}

// String returns a line for a person: the name and the statistics.
func (s *Shed) String() string { return describe("shed", s.o.Name, s.Statistics()) }
