package adaptive

import (
	"math"
	"time"
)

// finder is what [Gradient] and [Vegas] have in common: it measures the latency at the limit
// and the baseline, the latency without queueing, and has a law say which limit follows.
//
// # Why means
//
// By Little's law the mean latency is the number in flight over the throughput, whatever the
// distribution of service times. Once C requests saturate a server, its throughput stays the
// same, and the mean latency with L requests in it is L/C times the baseline. The least latency
// seen, which TCP Vegas takes, says nothing of a server whose service times differ.
//
// # Why trials
//
// An average of whatever samples come is raised by load in the end, however slowly it moves: when
// demand is far above the limit there are no others. And a latency that has risen does not say
// why. Therefore the limit is halved for a while. If the latency falls with it, requests were queueing:
// the limit was too high, and half of it is the new limit. If the latency does not fall, it is the
// server's own: it becomes the baseline, however long it is. In between, the server is saturated at
// the limit and not at half of it: the trial measured the baseline.
type finder struct {
	long float64 // samples that the baseline is the mean of, at most

	limit  float64 // wanted when no trial is under way; 0: not known yet
	growth float64 // share by which the limit grows next
	quiet  float64 // in flight in the last measure in which nothing queued; 0: none to go back to
	now    measure // the windows since the last decision
	full   measure // the latest at the limit

	baseline measure // n is 0: unknown
	trial    float64 // the limit on trial; 0: another phase
	tried    float64 // the limit at the latest trial
	fresh    bool    // the latest trial ended just before this measure
	pause    int     // measures between the latest trial and the next
	rest     int     // of which are to come

	reason string // for what next returned last
}

// phase is what the finder does with the next measure.
type phase uint8

const (
	searching phase = iota // the limit grows fast until something queues
	holding                // the limit follows the law
	onTrial                // half of the limit is in force
)

func (f *finder) phase() phase {
	switch {
	case f.trial > 0:
		return onTrial
	case f.growth == mostGrowth:
		return searching
	}
	return holding
}

// Explain gives the reason for what next returned last, and the baseline.
func (f *finder) Explain() (reason string, baseline time.Duration) {
	return f.reason, time.Duration(f.baseline.mean)
}

const (
	// A measure has at least five windows, so that their means show its error, and at most
	// 1,000 samples, or 20 for each permit in flight: where latencies differ very much, to be exact
	// would take too long.
	leastWindows, mostSamples, mostPerPermit = 5, 1000, 20

	// A measure ends when its standard error is such a share of the mean. Exact is what the limit
	// is held by: within a fifth of the capacity, baseline, latency and law may err together.
	// Coarse is enough for a step of half of the limit, and for a limit of a few permits, where it
	// is half a permit. A trial, which costs throughput, is in between; later ones add to it.
	exact, coarse, enoughForTrial = 0.035, 0.1, 0.055

	// The limit grows by leastGrowth while nothing queues, and by twice as much each time, up to
	// mostGrowth: a limit of 1 finds 1,000 in 15 steps, and one that fits is left by little.
	leastGrowth, mostGrowth = 0.025, 0.6

	// A latency of overloaded times the baseline calls for a trial if longQueue permits queue. A few
	// must queue at a small server, or it is idle between two requests.
	overloaded, longQueue = 1.4, 5

	// A latency that falls by this share of what it would fall by, if all of it were queueing, is
	// queueing. Also what is called nearly the same number in flight.
	nearly = 0.75

	unlike = 0.15 // latencies that differ by less may be the same

	// The baseline is the mean of longWindow samples of trials at most: with a standard deviation of
	// one and a half times the mean, an error of 1.5 %.
	longWindow = 10_000

	// From one trial to the next there is 1 measure, then 2, 4 and so on as long as they agree.
	// With 32, trials cost about a hundredth of the throughput.
	longestPause = 32
)

// law returns the limit that follows limit if the latency is ratio times the baseline, and
// reports whether nothing queues.
type law func(limit, ratio float64) (next float64, quiet bool)

// next takes a window, and returns the limit to be in force.
func (f *finder) next(limit int, w Window, l law) float64 {
	f.follow(limit)
	if w.Dropped > 0 {
		f.limit = max(min(f.limit, float64(limit))-max(math.Log10(f.limit), float64(w.Dropped)), 1)
		f.growth = leastGrowth
		f.reason = dropped
	}
	if w.N > 0 {
		f.now = f.now.and(measured(w))
	}
	if w.N == 0 || !f.complete() {
		return f.wanted()
	}
	now := f.now
	f.now = measure{}
	before := f.limit
	switch f.phase() {
	case onTrial:
		f.trial = 0
		f.judge(now, l)
	case searching, holding:
		f.full = now
		f.decide(l)
	}
	if !(f.limit >= 1) || math.IsInf(f.limit, 0) { // a function of the user's said so
		f.limit = before
	}
	return f.wanted()
}

// follow takes the limit in force, which may be less than was wanted: there are bounds, and the
// limit does not grow while it is not used. Fractions of a permit are kept.
func (f *finder) follow(limit int) {
	if f.limit == 0 {
		f.limit, f.growth = float64(limit), mostGrowth
	}
	if top := float64(limit) + 1 - 1e-6; f.phase() != onTrial && f.limit > top {
		f.limit, f.growth = top, leastGrowth
	}
}

func (f *finder) wanted() float64 {
	if f.phase() == onTrial {
		return min(f.trial, f.limit)
	}
	return f.limit
}

// complete reports whether the present measure is exact enough for its decision.
func (f *finder) complete() bool {
	m := f.now
	halfPermit := min(0.5/m.inFlight, coarse)
	switch {
	case m.windows < leastWindows:
		return false
	case m.n >= max(mostSamples, mostPerPermit*m.inFlight):
		return true
	case f.phase() != onTrial:
		return m.exact(max(min(f.growth/5, coarse), halfPermit, exact))
	case f.queued(m):
		return m.exact(coarse)
	}
	return m.exact(max(halfPermit, enoughForTrial))
}

// decide draws the conclusion from a measure at the limit.
func (f *finder) decide(l law) {
	inFlight := f.full.inFlight
	switch {
	case inFlight < 1.5: // a single request does not queue behind others
		f.learn(f.full)
	case f.full.mean < f.baseline.mean && f.full.differs(f.baseline): // the server has become faster
		f.renew(measure{})
	}
	if f.baseline.n == 0 {
		f.try()
		return
	}
	fresh := f.fresh
	f.fresh = false
	// A baseline that is too low by chance has the limit sink without end, as the latency never comes
	// down to it; one that is too high leaves a longer queue. Therefore half of its error is added.
	ratio := f.full.mean / (f.baseline.mean + f.baseline.stdErr()/2)
	if ratio >= overloaded && inFlight*(1-1/ratio) >= longQueue {
		f.shrink(fresh, ratio, l)
		return
	}
	if inFlight < f.limit/2 {
		return // nothing is learned about a limit that is not used
	}
	// A baseline that is too low has the limit sink on and on: that calls for a trial, too.
	due := f.rest == 0 || f.limit < (1-unlike)*f.tried
	if due && f.phase() == holding && inFlight > nearly*f.limit {
		f.try()
		return
	}
	f.rest = max(f.rest-1, 0)
	f.step(ratio, l)
}

// shrink answers to overload. If the limit has just grown it goes back to where nothing queued;
// else a trial shows whether that is queueing. If it is, the limit becomes what the throughput
// takes without queueing, but not less than was just seen to fit: a server may do less the more
// it has, so that the ratio says too much.
func (f *finder) shrink(fresh bool, ratio float64, l law) {
	fits := min(f.limit, f.full.inFlight) / ratio
	f.reason = overload
	switch {
	case 0 < f.quiet && f.quiet < f.limit:
		f.limit = max(f.quiet, fits)
		f.quiet = 0
	case fresh:
		next, _ := l(fits, 1)
		f.limit = max(next, f.baseline.inFlight)
	default:
		f.try()
		return
	}
	f.growth = leastGrowth
}

// step moves the limit by the law, and faster and faster while nothing queues.
func (f *finder) step(ratio float64, l law) {
	next, quiet := l(f.limit, ratio)
	f.reason = adjusting
	if quiet {
		f.quiet = min(f.limit, f.full.inFlight)
	}
	switch {
	case quiet || f.phase() == searching:
		f.reason = growing
		next = max(next, f.limit*(1+f.growth))
		f.growth = min(2*f.growth, mostGrowth)
	default:
		f.growth = leastGrowth
	}
	f.limit = next
}

// try begins a trial.
func (f *finder) try() {
	f.reason = trialBegan
	f.tried = f.limit
	f.trial = math.Ceil(max(min(f.limit, f.full.inFlight)/2, 1))
}

// judge draws the conclusion from a trial.
func (f *finder) judge(half measure, l law) {
	if f.queued(half) {
		f.limit = max(half.inFlight, 1)
		f.full = half
		f.renew(measure{})
		f.decide(l)
		f.reason = queueing
		return
	}
	f.reason = trialOver
	f.learn(half)
}

// queued reports whether the latency fell with the load, so that requests were queueing. It returns
// false if half of the load has the latency of the baseline, and if the load did not fall, because the
// limit cannot be lower.
func (f *finder) queued(half measure) bool {
	known := f.baseline.n > 0 && half.mean < (1+unlike)*f.baseline.mean
	if known || half.inFlight > nearly*f.full.inFlight {
		return false
	}
	fell, couldFall := f.full.mean/half.mean-1, f.full.inFlight/half.inFlight-1
	return fell >= nearly*couldFall
}

// learn has the baseline include what was measured with little load, or makes it all of that: of
// two measures of one server, the one with less load is the truer.
func (f *finder) learn(m measure) {
	loaded := f.baseline.mean > m.mean && f.baseline.inFlight > 1.5*m.inFlight
	switch {
	case f.baseline.n == 0 || f.baseline.differs(m):
		f.renew(m)
	case loaded:
		f.baseline, f.pause = m, min(2*f.pause, longestPause)
	default:
		f.baseline, f.pause = f.baseline.atMost(f.long-m.n).and(m), min(2*f.pause, longestPause)
	}
	f.rest, f.fresh = f.pause, true
}

// renew forgets what was learned by the baseline before.
func (f *finder) renew(baseline measure) {
	f.baseline = baseline
	f.quiet, f.growth, f.pause = 0, mostGrowth, 1
}
