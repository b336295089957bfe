package adaptive

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/invalid"
)

// Options configure a [Concurrency]. The zero value is usable: a limit from 1 to 1,000 that
// starts at 20, no queue, and [Gradient].
type Options struct {
	Name       string          // for metadata and errors; may be empty
	Min        int             // lowest limit. 0 means 1
	Max        int             // highest limit. 0 means 1000
	Initial    int             // first limit, from Min to Max. 0 means 20, or Min or Max if 20 is out of range
	QueueLimit int             // number of permits that may wait; 0 means that there is no queue
	QueueOrder core.QueueOrder // which waiters are served first

	// Algorithm moves the limit. nil means Gradient{}.
	Algorithm Algorithm

	// OnChange, unless it is nil, is called after each change of the limit, in order, one call at a
	// time. It runs on a goroutine that releases a lease, with no lock held. Successes that are
	// released in the meantime do not reach the algorithm.
	OnChange func(Change)
}

// Change is a change of the limit, and the reason for it.
type Change struct {
	Old, New int

	// Reason is the algorithm's reason, for logs and metrics. The reasons of this package are
	//
	//	growing       no requests queue, or no work was dropped
	//	adjusting     Gradient: by the latency compared with the baseline
	//	overloaded    Gradient: the latency is far above the baseline
	//	trial         Gradient: half of the limit is tried
	//	trial over    Gradient: no requests were queueing, so the limit is restored
	//	queueing      Gradient: in the trial the latency fell with the limit
	//	dropped       work was dropped, or held longer than the AIMD's Timeout
	//
	// An algorithm without a method Explain has the reason "algorithm".
	Reason string

	// Latency is the mean of the last window, or 0 if that had no success. Baseline is the mean latency
	// without queueing, or 0 if the algorithm does not know it or does not use one.
	Latency, Baseline time.Duration
}

const (
	defaultMin     = 1
	defaultMax     = 1000
	defaultInitial = 20
)

// setDefaults sets defaults for omitted options, and creates the limiter's own algorithm. It returns an error that
// lists all invalid options.
func (o *Options) setDefaults() error {
	e := errorsOf("Options")
	e.must(o.Min >= 0, "Min", o.Min, "at least 0")
	e.must(o.Max >= 0, "Max", o.Max, "at least 0")
	o.Min = cmp.Or(o.Min, defaultMin)
	o.Max = cmp.Or(o.Max, defaultMax)
	e.must(o.Max < 0 || o.Min <= o.Max, "Min", o.Min, fmt.Sprintf("at most Max, which is %d", o.Max))
	if o.Initial == 0 {
		o.Initial = min(max(defaultInitial, o.Min), o.Max)
	} else {
		right := o.Min <= o.Initial && o.Initial <= o.Max
		e.must(right, "Initial", o.Initial, fmt.Sprintf("from Min to Max, %d to %d", o.Min, o.Max))
	}
	e.queue(o.QueueLimit, o.QueueOrder)
	e.algorithm(&o.Algorithm)
	return e.Err()
}

// algorithm replaces a, which may be a configuration, by the limiter's own algorithm.
func (e *optionErrors) algorithm(a *Algorithm) {
	switch {
	case *a == nil:
		*a = Gradient{}
	case backdoor.IsNil(*a):
		e.must(false, "Algorithm", fmt.Sprintf("(%T)(nil)", *a), "an algorithm")
		return
	}
	if v, ok := (*a).(interface{ validate() error }); ok {
		if err := v.validate(); err != nil {
			e.Join(err)
			return
		}
	}
	if own, ok := (*a).(interface{ New() Algorithm }); ok {
		made := own.New()
		e.must(!backdoor.IsNil(made), "Algorithm", fmt.Sprintf("%T, whose New returns nil", *a), "an algorithm")
		*a = made
	}
}

// ShedOptions configure a [Shed].
type ShedOptions struct {
	// Name is the limiter's name, for metadata and errors. It may be empty.
	Name string

	// Probe is the sensor. It returns a reading in the unit of Threshold, such as a share or a number of
	// seconds. Calls never overlap. It should return quickly, because a caller waits for it. It must
	// not ask this Shed for permits, because the first reading would wait for itself. A reading of
	// NaN changes nothing. Required; see [CPU], [SchedulerLatency] and [Heap].
	Probe func() float64

	// Requests are not granted while the reading is Threshold or higher. Required; must be above 0.
	Threshold float64

	// ResumeBelow is the reading below which requests are granted again. A value well below Threshold
	// keeps the limiter from changing at every reading. 0 means Threshold, which is also the maximum.
	ResumeBelow float64

	// Interval is the age at which a reading is stale. 0 means 100 ms. A shorter time keeps the latency
	// lower, but it should be several times the CPU time of a request: see [Shed].
	Interval time.Duration

	// QueueLimit is the number of permits that may wait for the reading to fall. 0 means that there is
	// no queue.
	QueueLimit int

	// QueueOrder determines which waiters are evicted from a full queue, and which are served first.
	QueueOrder core.QueueOrder
}

const defaultInterval = 100 * time.Millisecond

// setDefaults sets defaults for omitted options. It returns an error that lists all invalid options.
func (o *ShedOptions) setDefaults() error {
	e := errorsOf("ShedOptions")
	e.must(o.Probe != nil, "Probe", "nil", "a function")
	e.must(o.Threshold > 0, "Threshold", o.Threshold, "above 0")
	e.must(o.ResumeBelow >= 0 && !(o.ResumeBelow > o.Threshold), "ResumeBelow", o.ResumeBelow, "from 0 to Threshold")
	e.must(o.Interval >= 0, "Interval", o.Interval, "at least 0")
	e.queue(o.QueueLimit, o.QueueOrder)
	o.ResumeBelow = cmp.Or(o.ResumeBelow, o.Threshold)
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	return e.Err()
}

func describe(kind, name string, s core.Statistics) string {
	if name != "" {
		kind += fmt.Sprintf(" %q", name)
	}
	return kind + ": " + s.String()
}

// optionErrors collects the invalid fields of options.
type optionErrors struct{ invalid.Fields }

// errorsOf returns the errors in options of this type, none yet.
func errorsOf(options string) optionErrors {
	return optionErrors{invalid.Fields{Prefix: "adaptive: " + options + "."}}
}

func (e *optionErrors) must(right bool, field string, value any, want string) {
	if !right {
		e.Add(field, value, want)
	}
}

func (e *optionErrors) queue(limit int, order core.QueueOrder) {
	e.must(limit >= 0, "QueueLimit", limit, "at least 0")
	e.must(order <= core.FairShare, "QueueOrder", order, "oldest-first, newest-first or fair-share")
}
