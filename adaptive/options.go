package adaptive

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Options configure a [Concurrency]. The zero value is usable: a limit from 1 to 1,000 that
// starts at 20, no queue, and [Gradient].
type Options struct {
	Name       string          // for metadata and errors; "": none
	Min        int             // the limit does not go below. 0: 1
	Max        int             // the limit does not go above. 0: 1000
	Initial    int             // where the limit starts, from Min to Max. 0: 20, moved into Min..Max
	QueueLimit int             // permits that may wait; 0: nobody waits
	QueueOrder core.QueueOrder // who is served first

	// Algorithm moves the limit. nil: Gradient{}. If it has a method New() Algorithm, the limiter
	// uses what New returns, so that the same Options make any number of limiters. Those of this
	// package have it: a type that embeds one of them must have its own.
	Algorithm Algorithm

	// OnChange is called after each change of the limit, in order, one call at a time. It runs on
	// a goroutine that releases a lease, with no lock held; successes that are released in the meantime
	// are lost to the algorithm. May be nil.
	OnChange func(Change)
}

// Change is a change of the limit, and why it was made.
type Change struct {
	Old, New int

	// Reason is the algorithm's, for logs and metrics. Those of this package are
	//
	//	growing       nothing queues, or nothing was dropped
	//	adjusting     Gradient: by the latency compared with the baseline
	//	overloaded    Gradient: the latency is far above the baseline
	//	trial         Gradient: half of the limit is tried
	//	trial over    Gradient: nothing was queueing, so the limit is back
	//	queueing      Gradient: in the trial the latency fell with the limit
	//	dropped       work was dropped, or held longer than the AIMD's Timeout
	//
	// An algorithm without a method Explain has the reason "algorithm".
	Reason string

	// Latency is the mean of the last window; 0 if that had no success. Baseline is the mean latency
	// without queueing; 0 if the algorithm does not know it, or has none.
	Latency, Baseline time.Duration
}

const (
	defaultMin     = 1
	defaultMax     = 1000
	defaultInitial = 20
)

// complete sets what was left out, and makes the limiter's own algorithm; it returns what
// is wrong, all at once.
func (o *Options) complete() error {
	f := faults{options: "Options"}
	f.must(o.Min >= 0, "Min", o.Min, "at least 0")
	f.must(o.Max >= 0, "Max", o.Max, "at least 0")
	o.Min = cmp.Or(o.Min, defaultMin)
	o.Max = cmp.Or(o.Max, defaultMax)
	f.must(o.Max < 0 || o.Min <= o.Max, "Min", o.Min, fmt.Sprintf("at most Max, which is %d", o.Max))
	if o.Initial == 0 {
		o.Initial = min(max(defaultInitial, o.Min), o.Max)
	} else {
		right := o.Min <= o.Initial && o.Initial <= o.Max
		f.must(right, "Initial", o.Initial, fmt.Sprintf("from Min to Max, %d to %d", o.Min, o.Max))
	}
	f.queue(o.QueueLimit, o.QueueOrder)
	f.algorithm(&o.Algorithm)
	return f.err()
}

// algorithm puts the limiter's own algorithm in the place of a, which may be a
// configuration.
func (f *faults) algorithm(a *Algorithm) {
	switch {
	case *a == nil:
		*a = Gradient{}
	case backdoor.IsNil(*a):
		f.must(false, "Algorithm", fmt.Sprintf("(%T)(nil)", *a), "an algorithm")
		return
	}
	if v, ok := (*a).(interface{ validate() error }); ok {
		if err := v.validate(); err != nil {
			f.errs = append(f.errs, err)
			return
		}
	}
	if own, ok := (*a).(interface{ New() Algorithm }); ok {
		made := own.New()
		f.must(!backdoor.IsNil(made), "Algorithm", fmt.Sprintf("%T, whose New returns nil", *a), "an algorithm")
		*a = made
	}
}

// ShedOptions configure a [Shed].
type ShedOptions struct {
	// Name is the limiter's, for metadata and errors. "": none.
	Name string

	// Probe is the sensor: it returns a reading, in the unit of Above, such as a share or a number
	// of seconds. Calls never overlap. It should return soon: a caller waits for it. It must not ask
	// this Shed for permits: the first reading would wait for itself. A reading of NaN
	// changes nothing. Required; see [CPU], [SchedulerLatency] and [Heap].
	Probe func() float64

	// Above is the reading from which on nothing is granted. Required, above 0.
	Above float64

	// Resume is the reading below which permits are granted again. Some way below Above it
	// keeps the limiter from changing at every reading. 0: Above, which is also the maximum.
	Resume float64

	// Every is the age at which a reading is stale. 0: 100 ms. Shorter keeps latency lower, but
	// should be several times what one request costs of a processor: see [Shed].
	Every time.Duration

	// QueueLimit is the number of permits that may wait for the reading to fall. 0: nobody waits.
	QueueLimit int

	// QueueOrder says who makes room in a full queue, and who is served first.
	QueueOrder core.QueueOrder
}

const defaultEvery = 100 * time.Millisecond

// complete sets what was left out; it returns what is wrong, all at once.
func (o *ShedOptions) complete() error {
	f := faults{options: "ShedOptions"}
	f.must(o.Probe != nil, "Probe", "nil", "a function")
	f.must(o.Above > 0, "Above", o.Above, "above 0")
	f.must(o.Resume >= 0 && !(o.Resume > o.Above), "Resume", o.Resume, "from 0 to Above")
	f.must(o.Every >= 0, "Every", o.Every, "at least 0")
	f.queue(o.QueueLimit, o.QueueOrder)
	o.Resume = cmp.Or(o.Resume, o.Above)
	o.Every = cmp.Or(o.Every, defaultEvery)
	return f.err()
}

func describe(kind, name string, s core.Statistics) string {
	if name != "" {
		kind += fmt.Sprintf(" %q", name)
	}
	return kind + ": " + s.String()
}

// faults collects what is wrong with options.
type faults struct {
	options string
	errs    []error
}

func (f *faults) must(right bool, field string, value any, want string) {
	if !right {
		f.errs = append(f.errs, fmt.Errorf("adaptive: %s.%s = %v, want %s", f.options, field, value, want))
	}
}

func (f *faults) queue(limit int, order core.QueueOrder) {
	f.must(limit >= 0, "QueueLimit", limit, "at least 0")
	f.must(order <= core.FairShare, "QueueOrder", order, "oldest-first, newest-first or fair-share")
}

func (f *faults) err() error { return errors.Join(f.errs...) }
