package shape

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Requests are how many come at once.
const Requests = 30

// Shape is what a limiter made of the burst.
type Shape struct {
	Name    string
	Terms   string
	Seconds []Second
	Counted core.Statistics // by the limiter itself
}

// Second is what happened in a second.
type Second struct {
	Granted  int
	Waiting  int // at its end
	Rejected int
}

// Measure sends a burst to each of the four limiters, at the same time, and watches for a number of
// seconds; second is how long one is. Requests that still wait then are given up.
func Measure(ctx context.Context, second time.Duration, seconds int) ([]Shape, error) {
	start := time.Now()
	all, err := scenarios(start, second)
	if err != nil {
		return nil, err
	}
	watch, stop := context.WithDeadlineCause(ctx, start.Add(time.Duration(seconds)*second), errOver)
	defer stop()

	shapes := make([]Shape, len(all))
	faults := make([]error, len(all))
	var running sync.WaitGroup
	for i, s := range all {
		running.Go(func() { shapes[i], faults[i] = s.measure(watch, start, second, seconds) })
	}
	running.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("stopped: %w", err)
	}
	return shapes, errors.Join(faults...)
}

// errOver says that the time to watch is over.
var errOver = errors.New("over")

// measure sends the burst to one limiter.
func (s scenario) measure(ctx context.Context, start time.Time, second time.Duration, seconds int) (Shape, error) {
	// A limiter rejects at once what cannot be served before a deadline of ctx, so it gets a
	// context without one.
	patient, stop := context.WithCancel(context.WithoutCancel(ctx))
	over := context.AfterFunc(ctx, stop)
	defer over()
	defer stop()

	events := make([]event, Requests)
	var requests sync.WaitGroup
	for i := range events {
		requests.Go(func() { events[i] = s.request(ctx, patient, start) })
	}
	requests.Wait()
	<-ctx.Done() // so that all end at the same time

	shape := Shape{Name: s.name, Terms: s.terms, Seconds: tally(events, second, seconds), Counted: s.limiter.Statistics()}
	if err := s.limiter.Close(); err != nil {
		return shape, err
	}
	for _, e := range events {
		if e.err != nil && !errors.Is(e.err, core.ErrRejected) && !errors.Is(e.err, context.Canceled) {
			return shape, fmt.Errorf("%s: %w", s.name, e.err)
		}
	}
	return shape, nil
}

// event is how a request ended: its error, and when it was decided.
type event struct {
	at  time.Duration
	err error
}

// request asks for a permit and holds it for as long as the task takes.
func (s scenario) request(watch, patient context.Context, start time.Time) event {
	lease, err := s.limiter.Acquire(patient, 1)
	e := event{time.Since(start), err}
	if err != nil {
		return e
	}
	defer lease.Release()
	if s.task > 0 {
		task := time.NewTimer(s.task)
		defer task.Stop()
		select {
		case <-task.C:
		case <-watch.Done():
		}
	}
	return e
}

// tally counts the events of each second. All requests came in the first.
func tally(events []event, second time.Duration, seconds int) []Second {
	counts := make([]Second, seconds)
	for _, e := range events {
		decided := int(e.at / second)
		if e.err != nil && !errors.Is(e.err, core.ErrRejected) {
			decided = seconds // given up
		}
		for i := range min(decided, seconds) {
			counts[i].Waiting++
		}
		switch {
		case decided >= seconds:
		case e.err == nil:
			counts[decided].Granted++
		default:
			counts[decided].Rejected++
		}
	}
	return counts
}
