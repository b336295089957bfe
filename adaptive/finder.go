package adaptive

import (
	"math"
	"time"
)

// finder is the algorithm of [Gradient]: it measures the latency at the limit and the baseline, which
// is the latency without queueing, and moves the limit by the gradient rule.
//
// # Why means
//
// By Little's law the mean latency is the number in flight over the throughput, whatever the
// distribution of service times. Once C requests saturate a server, its throughput stays the
// same, and the mean latency with L requests in it is L/C times the baseline. The least latency
// seen, which TCP Vegas uses, shows nothing about a server whose service times differ.
//
// # Why trials
//
// An average of whatever samples come is raised by load in the end, however slowly it moves: when
// demand is far above the limit there are no others. And a latency that has risen does not show
// why. Therefore the limit is halved for a while. If the latency falls with it, requests were queueing:
// the limit was too high, and half of it is the new limit. If the latency does not fall, it is the
// server's own: it becomes the baseline, however long it is. In between, the server is saturated at
// the limit and not at half of it: the trial measured the baseline.
type finder struct {
	tolerance, smoothing float64 // those of Gradient
	window               float64 // max samples that the baseline is the mean of

	phase    phase
	limit    float64 // the wanted limit, except during a trial and for the debt
	debt     float64 // permits taken off for drops, until they are paid back
	dropped  bool    // whether work was dropped in the last window, so that the limit did not follow the wanted one
	growth   float64 // share by which the limit grows next
	unqueued float64 // requests in flight in the last measure without a queue, to go back to; 0 if unknown
	current  measure // the windows since the last decision
	atLimit  measure // the latest one at the limit

	baseline measure // n is 0 while it is unknown
	trial    trial
	reason   string // for the last result of Next
}

// phase is what the finder does with the next measure. No phase has a length in time: each one ends with a measure.
type phase uint8

const (
	// starting ends with the first window, when the current limit is known.
	starting phase = iota

	// searching lets the limit grow by maxGrowth until requests queue, from measures as coarse as coarseError. A step
	// that is too large costs one overload, from which shrink goes back.
	searching

	// holding follows the rule and grows by minGrowth at first. It needs measures as exact as heldError, so it lasts
	// longest; a trial interrupts it after 1 to maxInterval measures.
	holding

	// onTrial has half of the limit as the current limit. Throughput is lost during a trial, so it must stay short: it
	// ends with one measure of trialError. A smaller share than half would show the baseline better, and cost more.
	onTrial
)

// trial is the current trial or the latest one, and when the next one is due.
type trial struct {
	limit     float64 // during the trial
	of        float64 // the limit before the trial
	after     phase   // the phase after the trial
	justEnded bool    // whether no measure was completed since the trial
	interval  int     // measures from one trial to the next
	remaining int     // measures until the next trial
}

// The values were found with the simulations of this package's tests. Where a comment names a test, that test fails with
// the value beside it. Change one constant at a time, and run all tests of simulation_test.go.
const (
	// minWindows is the fewest windows of a measure; their means show its error. Range: 4 to 8. With 3, a few
	// windows that agree by chance decide, and the limit jumps (TestSmallCapacities, TestFindsTheCapacity). With 10, a
	// limit of a few permits, whose windows are long, is found too late (TestSmallCapacities).
	minWindows = 5

	// A measure has at most maxSamples samples, or maxPerPermit for each permit in flight, because an exact measure
	// takes too long where latencies differ very much. Ranges: 500 to 2,000, and 15 to 40. With 300 or 10, the limit
	// follows noise (TestFindsTheCapacity). With 3,000, it reacts too late
	// to a server that changes (TestAStepOfTheServiceTimeIsNoLoad).
	maxSamples, maxPerPermit = 1000, 20

	// A measure ends when its standard error is such a share of the mean.
	//
	// heldError is for a limit that is held: baseline, latency and rule together may err by a fifth of the capacity.
	// With 0.028, measures take so long that the limit comes too late; with 0.045, it follows noise (both
	// TestFindsTheCapacity).
	//
	// coarseError is enough for a step of half of the limit, and for a limit of a few permits, where it is half a
	// permit. It must be above trialError. With 0.13, noise is taken for a queue (TestSmallCapacities,
	// TestLeavesAnIdleServerAlone).
	//
	// trialError is between the two, because a trial costs throughput, and later trials add to it. Near heldError a
	// trial costs as much as a measure of a limit that is held. With 0.07, the baseline of the first trials is too far
	// off, and so is the limit (TestFindsTheCapacity).
	heldError, coarseError, trialError = 0.035, 0.1, 0.055

	// The limit grows by minGrowth while nothing queues, and by twice as much each time, up to maxGrowth: a limit of
	// 1 finds 1,000 in 15 steps, and one that fits is exceeded by little. minGrowth must be above 0. With 0.035, a step
	// at a limit that fits already shows as a queue (TestAStepOfTheServiceTimeIsNoLoad). With a maxGrowth of 0.45, a
	// search takes too many steps (TestFindsTheCapacity); with 0.8, the last step overloads the server too much
	// (TestFindsTheCapacity, TestSmallCapacities).
	minGrowth, maxGrowth = 0.025, 0.6

	// A latency of overloaded times the baseline calls for a trial if longQueue permits queue. A few must queue at a
	// small server, or it is idle between two requests. overloaded must be above the ratio of a limit that fits, which
	// is 1.1 (see queueShare), and the errors of both measures. With 1.3, a limit that fits is cut for nothing; with
	// 1.5, a limit that is too high is kept for too long (TestFindsTheCapacity). With a longQueue of 4, a small
	// server is cut for the room that the rule gives it; with 7, its queue stays too long (both TestSmallCapacities).
	overloaded, longQueue = 1.4, 5

	// Requests were queueing if the latency falls by this share of what it would fall by if it were all queueing. Two
	// numbers in flight whose ratio is above this share count as the same. Range: 0.65 to 0.85. It must be above 0.5,
	// the ratio that a trial aims at, and below 1, which no measure with an error reaches. A low value takes the
	// server's own latency for a queue and halves a limit that fits; a high one takes a queue for the server's own
	// latency and learns it as the baseline, so that the limit stays too high until the next trial.
	nearlyAll = 0.75

	// Two latencies that differ by a smaller share may be the same. Range: 0.15 to 0.2. With 0.11, noise is taken for a
	// change, and the baseline is dropped each time (TestFindsTheCapacity). A server that becomes faster by less than
	// this share keeps the limit of before until the next trial.
	sameLatency = 0.15

	// The baseline is the mean of at most longWindow samples of trials: with a standard deviation of one and a half
	// times the mean, that is an error of 1.5 %. Gradient.LongWindow sets it. Range: 5,000 to 20,000. 1,000 make an
	// error of 5 %, which is also that of the limit. The baseline of a larger number follows a server that changes by
	// less than sameLatency more slowly.
	longWindow = 10_000

	// From one trial to the next there is 1 measure, then 2, 4 and so on as long as they agree. With 32, trials cost
	// about a hundredth of the throughput. With 16, trials cost a small server too much (TestSmallCapacities). With 64, a
	// baseline that has become wrong by less than overloaded stays twice as long.
	maxInterval = 32

	// A drop takes one permit off, and payback successes return it. So drops that have nothing to do with load cost little
	// while they are fewer than one in payback. If more than debtShare of the limit, and more than minDebt permits, are off
	// at a time, the drops come from load, and the limit falls for good. payback must be below 100, because 1 % of drops
	// without load may not cost much (TestDropsWithoutLoad). debtShare must be well above the share of long requests among
	// those in flight, because a trial meets all of them at once: with 0.15, the limit falls by chance (the same test).
	payback, debtShare, minDebt = 40, 0.25, 5
)

// rule returns the limit that follows limit if the latency is ratio times the baseline, and
// reports whether nothing queues.
func (f *finder) rule(limit, ratio float64) (next float64, noQueue bool) {
	slope := min(f.tolerance/ratio, 1)
	next = limit*slope + max(queueShare*limit, minQueue)
	return limit + f.smoothing*(next-limit), slope == 1
}

// Next takes a window and returns the new limit.
func (f *finder) Next(limit int, w Sample) float64 {
	f.follow(limit)
	f.pay(w.N)
	if w.N > 0 {
		f.current = f.current.and(measured(w))
		if f.isExact() {
			f.conclude()
		}
	}
	f.dropped = w.Dropped > 0
	if f.dropped {
		f.drop(w.Dropped)
		f.reason = reasonDropped
	}
	return f.wanted()
}

// conclude draws the conclusion from the current measure.
func (f *finder) conclude() {
	m := f.current
	f.current = measure{}
	if f.phase == onTrial {
		f.endTrial(m)
	} else {
		f.decide(m)
	}
}

// Explain returns the reason for the last result of Next, and the baseline.
func (f *finder) Explain() (reason string, baseline time.Duration) {
	return f.reason, time.Duration(f.baseline.mean)
}

// follow takes the current limit. It may be less than the wanted one, because there are bounds, and because the
// limit does not grow while it is not used. Fractions of a permit are kept.
func (f *finder) follow(limit int) {
	switch top := float64(limit) + 1 - 1e-6; {
	case f.phase == starting:
		f.limit = float64(limit)
		f.search()
	case f.phase != onTrial && !f.dropped && f.limit-f.debt > top:
		f.limit = top + f.debt
		f.hold()
	}
}

// pay pays back what is owed for drops.
func (f *finder) pay(successes int) {
	if f.debt == 0 {
		return
	}
	f.debt = max(f.debt-float64(successes)/payback, 0)
	if f.phase != onTrial {
		f.reason = reasonGrowing
	}
}

// drop takes permits off for work that was dropped. It leaves a trial alone: at its end the limit is the one from before.
func (f *finder) drop(dropped int) {
	f.debt += float64(dropped)
	if f.debt > max(debtShare*f.limit, minDebt) {
		f.limit, f.debt = max(f.limit-f.debt, 1), 0
		f.hold()
	}
}

// wanted returns the wanted limit.
func (f *finder) wanted() float64 {
	if f.phase == onTrial {
		return min(f.trial.limit, f.limit)
	}
	return max(f.limit-f.debt, 1)
}

// Restores returns the limit to which a trial that has just ended returns, even if little of it is in use, or 0.
func (f *finder) Restores() float64 {
	if f.trial.justEnded {
		return f.trial.of
	}
	return 0
}

// isExact reports whether the current measure is exact enough for its decision.
func (f *finder) isExact() bool {
	m := f.current
	halfPermit := min(0.5/m.inFlight, coarseError)
	switch {
	case m.windows < minWindows:
		return false
	case m.n >= max(maxSamples, maxPerPermit*m.inFlight):
		return true
	case f.phase != onTrial:
		return m.exact(max(min(f.growth/5, coarseError), halfPermit, heldError))
	case f.queued(m):
		return m.exact(coarseError)
	}
	return m.exact(max(halfPermit, trialError))
}

// decide draws the conclusion from a measure at the limit.
func (f *finder) decide(m measure) {
	f.atLimit = m
	switch {
	case m.inFlight < 1.5: // a single request does not queue behind others
		f.learn(m)
	case m.mean < f.baseline.mean && m.differs(f.baseline): // the server has become faster
		f.forget()
	}
	if f.baseline.n == 0 {
		f.startTrial()
		return
	}
	afterTrial := f.trial.justEnded
	f.trial.justEnded = false
	// If the baseline happens to be too low, the limit sinks without end, because the latency never falls that
	// far. If it is too high, the queue is longer than necessary. Therefore half of its error is added.
	ratio := m.mean / (f.baseline.mean + f.baseline.stdErr()/2)
	switch {
	case ratio >= overloaded && m.inFlight*(1-1/ratio) >= longQueue:
		f.shrink(afterTrial, ratio)
	case m.inFlight < f.limit/2: // a limit that is not used is not learned from
	case f.trialIsDue() && m.inFlight > nearlyAll*f.limit:
		f.startTrial()
	default:
		f.trial.remaining = max(f.trial.remaining-1, 0)
		f.step(ratio)
	}
}

// shrink reduces the limit after an overload. If the limit has just grown, it goes back to where nothing queued.
// Otherwise a trial shows whether the latency is queueing. If it is, the limit becomes what the throughput
// takes without queueing, but not less than the trial had in flight: a server may do less the more
// it has, so the ratio is too high.
func (f *finder) shrink(afterTrial bool, ratio float64) {
	fits := min(f.limit, f.atLimit.inFlight) / ratio
	switch {
	case 0 < f.unqueued && f.unqueued < f.limit:
		f.limit = max(f.unqueued, fits)
		f.unqueued = 0
	case afterTrial:
		next, _ := f.rule(fits, 1)
		f.limit = max(next, f.baseline.inFlight)
	default:
		f.startTrial()
		return
	}
	f.hold()
	f.reason = reasonOverloaded
}

// step moves the limit by the rule, and faster and faster while nothing queues.
func (f *finder) step(ratio float64) {
	next, noQueue := f.rule(f.limit, ratio)
	if noQueue {
		f.unqueued = min(f.limit, f.atLimit.inFlight)
	}
	if !noQueue && f.phase == holding {
		f.limit = next
		f.hold()
		f.reason = reasonAdjusting
		return
	}
	f.limit = max(next, f.limit*(1+f.growth))
	f.growth *= 2
	if f.growth >= maxGrowth {
		f.search()
	}
	f.reason = reasonGrowing
}

// search makes the limit grow fast, from now on or after the trial.
func (f *finder) search() { f.pace(searching, maxGrowth) }

// hold makes the limit grow slowly, from now on or after the trial.
func (f *finder) hold() { f.pace(holding, minGrowth) }

func (f *finder) pace(p phase, growth float64) {
	f.growth = growth
	if f.phase == onTrial {
		f.trial.after = p
	} else {
		f.phase = p
	}
}

// trialIsDue reports whether a limit that is held needs a trial. It does if the limit keeps sinking, because the
// baseline may be too low.
func (f *finder) trialIsDue() bool {
	return f.phase == holding && (f.trial.remaining == 0 || f.limit < (1-sameLatency)*f.trial.of)
}

// startTrial halves the current limit.
func (f *finder) startTrial() {
	f.trial.of, f.trial.after = f.limit, f.phase
	f.trial.limit = math.Ceil(max(min(f.limit, f.atLimit.inFlight)/2, 1))
	f.phase = onTrial
	f.reason = reasonTrial
}

// endTrial draws the conclusion from the measure of a trial.
func (f *finder) endTrial(half measure) {
	f.phase = f.trial.after
	if !f.queued(half) {
		f.learn(half)
		f.reason = reasonTrialOver
		return
	}
	f.limit = max(half.inFlight, 1)
	f.forget()
	f.decide(half)
	f.reason = reasonQueueing
}

// queued reports whether the latency fell with the load in a trial, so that requests were queueing before.
// It did not if half of the load has the latency of the baseline, or if the load did not fall because the
// limit cannot be lower.
func (f *finder) queued(half measure) bool {
	known := f.baseline.n > 0 && half.mean < (1+sameLatency)*f.baseline.mean
	if known || half.inFlight > nearlyAll*f.atLimit.inFlight {
		return false
	}
	fell, couldFall := f.atLimit.mean/half.mean-1, f.atLimit.inFlight/half.inFlight-1
	return fell >= nearlyAll*couldFall
}

// learn adds a measure with little load to the baseline, or makes it the baseline: of
// two measures of one server, the one with less load is closer to the latency without queueing.
func (f *finder) learn(m measure) {
	agrees := f.baseline.n > 0 && !f.baseline.differs(m)
	loaded := f.baseline.mean > m.mean && f.baseline.inFlight > 1.5*m.inFlight
	switch {
	case !agrees:
		f.forget()
		f.baseline = m
	case loaded:
		f.baseline = m
	default:
		f.baseline = f.baseline.atMost(f.window - m.n).and(m)
	}
	if agrees {
		f.trial.interval = min(2*f.trial.interval, maxInterval)
	}
	f.trial.remaining, f.trial.justEnded = f.trial.interval, true
}

// forget drops the baseline and everything that was learned with it.
func (f *finder) forget() {
	f.baseline, f.unqueued, f.trial.interval = measure{}, 0, 1
	f.search()
}
