package adaptive

import (
	"math"
	"time"
)

// meter measures what [Gradient] and [Vegas] go by: the mean latency at the limit, and the
// mean latency without load, the baseline. It goes round in cycles of windows of samples: at
// the limit, and now and then at a part of it, the probe.
//
// # Why means
//
// By Little's law the mean latency is what is in flight over the throughput, whatever the
// distribution of service times. Once C requests saturate a server its throughput stays
// what it is, so the mean latency with L requests in it is L/C times that without load. The
// least latency seen, which TCP Vegas takes, says nothing of a server whose service times
// differ; and the samples of a moment are mostly of short requests, as those end first.
//
// # Why probes
//
// A baseline that is made of whatever samples come, however slowly it moves, is raised by
// load in the end: while demand is far above the limit there are no others. So now and then
// the limit is lowered for a while, to see what latency there is below. Nobody starves by
// it: the limit is lowered by a fifth, and what it costs is at most a fifth of the throughput
// for that while, or nothing if the server had a queue.
//
// Probes with the throughput of the full limit show that the limit is far too high: the
// latency has followed the load down. Then the probe's level is the limit from then on; that
// is how a limit comes down from far above, before there is any baseline. While less than
// half of the limit is in flight there is nothing to find out, and the samples are a
// baseline themselves.
type meter struct {
	longWindow int // samples that the baseline is the mean of; 0: by the limit

	limit     float64 // that is wanted, probes aside
	seeking   bool    // no limit that fits has been found yet: windows are short
	level     float64 // of the probe that is under way; 0: none is
	skip      int     // samples to come that were under way before a change
	rest      int     // windows to come without a probe
	saturated float64 // what speaks for a server that is saturated in the probes too; see weigh
	streak    int     // windows without queueing, as the algorithm counts them
	fine      float64 // what was in flight in the last window, if there was no queueing; else 0
	over      int     // windows in a row that were overloaded, while seeking
	high      float64 // what was too much, while seeking; 0: nothing was yet
	stuck     int     // probes since the limit last fitted that could not lower it

	base    time.Time     // what instants count from
	at      time.Duration // of the sample that Next has
	changed time.Duration // when a phase last began

	now   window        // the samples of this phase
	left  leftover      // of before it
	begun time.Duration // when they began to count
	again int           // windows before, of this phase, of which too much was old
	full  window        // the last at the limit

	free     float64 // the latency of the last probe that left the server room; 0: none has
	believed int     // probes since

	baseline float64  // 0: unknown
	noise    float64  // standard error of the latency over the baseline, as a share
	probes   []window // that the baseline is the mean of, the oldest first
}

const (
	// What a probe leaves of what is in flight: when a limit that fits is known; if the server may
	// be saturated all the same; and before.
	probeShare, deepShare, seekShare = 0.8, 0.7, 0.6

	// A window ends when its mean is so exact, given as the share that its standard error is;
	// but it has as many samples at least and at most, for each that is in flight and in all.
	precision, seekPrecision = 0.035, 0.08
	leastLength, seekLength  = 5, 1.5
	mostLength               = 40
	leastWindow, mostWindow  = 60, 2000

	fullPerProbe  = 6    // windows at the limit from one probe to the next, once the baseline is known
	settleLength  = 1.5  // samples that do not count after a change, for each that was in flight
	overloaded    = 1.25 // a ratio at which the limit has been found
	farOverloaded = 1.5  // a ratio at which there is no time for caution
	quiet         = 1.1  // a ratio up to which nothing queued, for all that a short window tells
	leastForced   = 10   // in flight, for a probe while less than half of the limit is used

	mostAgain = 4 // windows that a phase begins anew, as too much of them is old

	small      = 30  // in flight, of which a permit or two are a large share
	smallShare = 0.5 // seekShare of so little
	smallQueue = 6   // permits; a longer queue is long at a small server, too

	// A level above this share of another is not below it.
	lower = 0.85
)

// add takes a sample. It reports whether there is news of the latency at the limit, so that
// the algorithm sets the limit by the ratio.
func (m *meter) add(s Sample) bool {
	m.begin(s)
	if m.skip == 1 {
		m.skip, m.begun = 0, m.at
		return false
	}
	if m.count(s.Limit, s.InFlight, m.at-s.Duration, s.Duration) {
		return false
	}
	w, ok := m.end(s)
	if !ok {
		return false
	}
	if m.level > 0 {
		m.level = 0
		m.settle(m.full.level())
		return m.probed(w)
	}
	m.full = w
	// What the limit is may not be what was wanted: it is bounded, and does not grow while
	// less than half of it is used.
	m.limit = min(m.limit, topOf(s.Limit))
	switch {
	case w.level() < m.limit/2 && (m.baseline > 0 || w.level() < leastForced), w.level()*probeShare < 1:
		m.unforced(w)
		return m.baseline > 0
	case m.rest > 0 && m.baseline > 0 && m.ratio() < overloaded && m.saturated < doubtful:
		m.rest--
		return true
	}
	m.level = m.below(w.level())
	m.settle(w.level())
	return false
}

// since tells what instants count from.
func (m *meter) since(base time.Time) { m.base = base }

// count takes a sample that does not begin or end a window; one that does it leaves.
func (m *meter) count(_, inFlight int, granted, held time.Duration) bool {
	if m.skip > 0 {
		if m.skip == 1 {
			return false
		}
		m.skip--
		return true
	}
	w := m.now.with(inFlight, held)
	if w.n >= leastWindow && m.enough(w) {
		return false
	}
	m.now = w
	m.look(inFlight, granted)
	return true
}

// end ends the window with a sample, and reports whether it is of use: if too much of it was under
// way before the change, the next one is in its place.
func (m *meter) end(s Sample) (window, bool) {
	w := m.now.with(s.InFlight, s.Duration)
	m.look(s.InFlight, m.at-s.Duration)
	left, took := m.left, m.at-m.begun
	m.now, m.left, m.begun = window{}, leftover{}, m.at
	if left.isOld(w, took) && m.again < mostAgain {
		m.again++
		return w, false
	}
	m.again = 0
	return left.mend(w, took), true
}

// look takes note of what may be old.
func (m *meter) look(inFlight int, granted time.Duration) {
	if granted < m.changed {
		m.left.old++
	}
	if m.left.least == 0 || inFlight < m.left.least {
		m.left.least = inFlight
	}
}

// below returns the level of a probe.
func (m *meter) below(level float64) float64 {
	share := probeShare
	switch {
	case level < small && m.baseline > 0:
		// A permit is a large share here: a probe at the share alone would keep much of the queue,
		// or leave the server idle. So it goes to where the queue seems to end.
		return max(min(math.Floor(share*level), math.Round(level/m.ratio())), 1)
	case level < small && m.seeking:
		share = smallShare
	case m.seeking:
		share = seekShare
	case m.saturated >= doubtful:
		share = deepShare
	}
	return max(math.Floor(share*level), 1)
}

// begin is for each sample that Next has; the first of all begins the search.
func (m *meter) begin(s Sample) {
	if m.base.IsZero() {
		m.base = s.At
	}
	m.at = s.At.Sub(m.base)
	if m.limit == 0 {
		m.limit, m.seeking = float64(s.Limit), true
		m.settle(float64(s.InFlight))
	}
}

// topOf returns the largest useful fraction that rounds down to the limit.
func topOf(limit int) float64 { return float64(limit) + 1 - 1e-6 }

// want has the limit follow a law. What a law says that is no number, or no limit, comes of a
// function of the user's, and must not stay.
func (m *meter) want(limit float64) {
	if !math.IsNaN(limit) {
		m.limit = max(limit, 1)
	}
}

// settle has the samples not counted that were under way, or waited at the server, before
// the limit changed.
func (m *meter) settle(inFlight float64) {
	m.skip = int(settleLength*inFlight) + 1
	m.changed = m.at
}

// enough reports whether a window of leastWindow samples or more has those that it needs. It
// looks at each sample, so it does not divide.
func (m *meter) enough(w window) bool {
	share, least := precision, float64(leastLength)
	if m.seeking {
		share, least = seekPrecision, seekLength
	}
	n := float64(w.n)
	if n*n < least*w.inFlight { // n is less than so many times the level
		return false
	}
	// The variance of the mean is at most the square of the share of the mean.
	return n*w.sumSq <= w.sum*w.sum*(1+share*share*n) || n >= mostWindow && n*n >= mostLength*w.inFlight
}

// wanted returns the limit to be in force now.
func (m *meter) wanted() float64 {
	if m.level > 0 {
		return min(m.level, m.limit)
	}
	return m.limit
}

// ratio returns the latency at the limit over the baseline, which is known. What noise there
// is beyond the precision that windows aim at counts in favour of the limit; else the limit
// would sink by it.
func (m *meter) ratio() float64 {
	return m.full.mean() / m.baseline / (1 + max(m.noise-1.5*precision, 0))
}

// drop takes note of a drop, and returns the limit to be in force.
func (m *meter) drop(s Sample) float64 {
	m.begin(s)
	m.limit = min(m.limit, topOf(s.Limit))
	step := max(math.Log10(m.limit), 1)
	m.limit = max(m.limit-step, 1)
	m.seeking = false
	return min(m.wanted(), float64(s.Limit)-step)
}
