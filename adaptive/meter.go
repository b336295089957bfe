package adaptive

import (
	"math"
	"slices"
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
// A probe with the throughput of the full limit shows that the limit is far too high: the
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
	saturated int     // probes in a row that found the server saturated
	streak    int     // windows without queueing, as the algorithm counts them
	fine      float64 // what was in flight in the last window, if there was no queueing; else 0
	stuck     int     // probes since the limit could last be lowered for one

	now  window // the samples of this phase
	full window // the last at the limit

	free     float64 // the latency of the last probe that left the server room; 0: none has
	believed int     // probes since

	baseline float64  // 0: unknown
	noise    float64  // standard error of the latency over the baseline, as a share
	probes   []window // that the baseline is the mean of, the oldest first
}

const (
	// What a probe leaves of what is in flight, when a limit that fits is known and before.
	probeShare, seekShare = 0.8, 0.6

	// A window ends when its mean is so exact, given as the share that its standard error is;
	// but it has as many samples at least and at most, for each that is in flight and in all.
	precision, seekPrecision = 0.035, 0.08
	leastLength, seekLength  = 5, 1.5
	mostLength               = 40
	leastWindow, mostWindow  = 60, 2000

	fullPerProbe  = 6    // windows at the limit from one probe to the next, once the baseline is known
	settleLength  = 1.5  // samples that do not count after a change, for each that was in flight
	seekGrowth    = 1.6  // of the limit, from window to window, while it is sought
	overloaded    = 1.25 // a ratio at which the limit has been found
	farOverloaded = 1.5  // a ratio at which there is no time for caution
	quiet         = 1.1  // a ratio up to which nothing queued, for all that a short window tells
	leastForced   = 10   // in flight, for a probe while less than half of the limit is used
	leastRoom     = 0.06
	mostRoom      = 0.36
	baselinePer   = 30 // samples of the baseline, per unit of the limit
	leastBaseline = 600

	// A probe follows the load down if its latency falls by such a share of the fall in load.
	follows = 0.75

	// If it falls by so many times the fall in load, the server did less because it had too
	// much: the probe may well have left it room.
	collapses = 2.5

	// A probe has the latency of one that left the server room if it is below so many times that,
	// and so many probes ago at most.
	alike        = 1.15
	mostBelieved = 16

	contrast = 1.3 // of the levels, for a probe to show that it left room

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
	if m.count(s.Limit, s.InFlight, s.Duration) {
		return false
	}
	w := m.now.with(s.InFlight, s.Duration)
	m.now = window{}
	if m.level > 0 {
		m.level = 0
		m.settle(m.full.level())
		return m.probed(w)
	}
	m.full = w
	// What the limit is may not be what was wanted: it is bounded, and does not grow while
	// less than half of it is used.
	m.limit = min(m.limit, justBelow(s.Limit+1))
	switch {
	case w.level() < m.limit/2 && (m.baseline > 0 || w.level() < leastForced), w.level()*probeShare < 1:
		m.unforced(w)
		return m.baseline > 0
	case m.rest > 0 && m.baseline > 0 && m.ratio() < overloaded:
		m.rest--
		return true
	}
	m.level = m.below(w.level())
	m.settle(w.level())
	return false
}

// count takes a sample that does not end a window; one that does it leaves.
func (m *meter) count(_, inFlight int, held time.Duration) bool {
	if m.skip > 0 {
		m.skip--
		return true
	}
	w := m.now.with(inFlight, held)
	if w.n >= leastWindow && m.enough(w) {
		return false
	}
	m.now = w
	return true
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
	}
	return max(math.Floor(share*level), 1)
}

// begin is for the first sample of all.
func (m *meter) begin(s Sample) {
	if m.limit == 0 {
		m.limit, m.seeking = float64(s.Limit), true
		m.settle(float64(s.InFlight))
	}
}

// justBelow returns the largest useful fraction that rounds down to less than n.
func justBelow(n int) float64 { return float64(n) - 1e-6 }

// settle has the samples not counted that were under way, or waited at the server, before
// the limit changed.
func (m *meter) settle(inFlight float64) { m.skip = int(settleLength*inFlight) + 1 }

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

// probed takes note of a probe's window, and reports whether the ratio is to be used.
func (m *meter) probed(w window) bool {
	full, part := m.full.level(), w.level()
	switch {
	case w.mean() == 0: // there is no latency at all
		return m.baseline > 0
	case part > (1+lower)/2*full:
		return m.blocked()
	}
	// 1 if the server was saturated at both levels, so that the throughput was the same; 0 if
	// it was at neither.
	followed := (m.full.mean()/w.mean() - 1) / (full/part - 1)
	m.saturated++
	if m.isFree(w, followed) || followed < follows || followed > collapses {
		m.saturated = 0
	}
	if m.saturated > 1 || m.saturated > 0 && m.seeking {
		m.seeking = m.seeking || m.baseline > 0 && m.ratio() > farOverloaded
		m.limit = max(part, 1)
		m.skip = 0
		m.probes, m.baseline, m.free = nil, 0, 0
		return false
	}
	if m.saturated == 0 {
		m.stuck = 0
	}
	switch { // what may have been under load itself does not raise the baseline
	case w.mean() > m.full.mean() && differ(w, m.full):
		// Less load and more latency: the server is another than it was a window ago.
		m.rest = 0
	case followed < follows/2 || m.baseline == 0 || w.mean() < m.baseline:
		m.keep(w)
	}
	return m.baseline > 0
}

// blocked is for a probe whose limit could not be lowered: it is the least that there may be. What
// cannot be learned from below is learned from above, or the limit would stay there for ever;
// more and more seldom, if that was too much.
func (m *meter) blocked() bool {
	m.stuck++
	if m.stuck < 2 || m.stuck&(m.stuck-1) != 0 {
		return m.baseline > 0
	}
	m.limit *= seekGrowth
	m.seeking = true
	m.probes, m.baseline, m.free = nil, 0, 0
	return false
}

// isFree reports whether the latency of a probe is known to be that without load, although
// the throughput was that of the full limit: the limit is some permits above what the server can
// take, and the probe is just there.
func (m *meter) isFree(w window, followed float64) bool {
	if followed < follows/2 && m.full.level() > contrast*w.level() && m.full.level() < small {
		m.free, m.believed = w.mean(), 0
		return true
	}
	m.believed++
	return m.full.level() < small && m.believed <= mostBelieved && w.mean() < alike*m.free
}

// unforced takes note of a window with little in flight. It is as good as a probe's, unless
// there was more in flight than in the probes, and it took longer.
func (m *meter) unforced(w window) {
	if p := m.pool(); m.baseline > 0 && lower*w.level() > p.level() && w.mean() > m.baseline {
		m.doubt()
		return
	}
	m.keep(w)
	m.rest = 0
}

// keep makes w part of the baseline, which it may be all of.
func (m *meter) keep(w window) {
	long := m.longWindow
	if long == 0 {
		long = max(int(baselinePer*w.level()), leastBaseline)
	}
	total, from := w.n, len(m.probes)
	for from > 0 && total < long {
		from--
		total += m.probes[from].n
	}
	m.probes = slices.Delete(m.probes, 0, from)
	m.probes = slices.DeleteFunc(m.probes, func(old window) bool {
		return lower*old.level() > m.full.level() || differ(old, w)
	})
	m.probes = append(m.probes, w)
	if m.rest = 0; total >= long {
		m.rest = fullPerProbe - 1
	}
	p := m.pool()
	m.baseline = p.mean()
	m.doubt()
}

// pool returns all probes as one window.
func (m *meter) pool() window {
	var all window
	for _, p := range m.probes {
		all.n += p.n
		all.sum += p.sum
		all.sumSq += p.sumSq
		all.inFlight += p.inFlight
	}
	return all
}

// doubt works out the noise.
func (m *meter) doubt() {
	p := m.pool()
	m.noise = math.Hypot(m.full.spread(), p.spread())
}

// ratio returns the latency at the limit over the baseline, which is known. What noise there
// is beyond the precision that windows aim at counts in favour of the limit; else the limit
// would sink by it.
func (m *meter) ratio() float64 {
	return m.full.mean() / m.baseline / (1 + max(m.noise-1.5*precision, 0))
}

// room returns the share by which the limit may grow in a window without queueing: more and
// more, by haste, while there is none.
func (m *meter) room(haste float64) float64 {
	return min(leastRoom*math.Pow(haste, float64(max(m.streak-2, 0))), mostRoom)
}

// note takes note of a window that is not far overloaded: whether there was queueing.
func (m *meter) note(fine bool) {
	m.streak++
	m.fine = min(m.limit, m.full.level())
	if !fine {
		m.streak, m.fine = 0, 0
	}
}

// seek returns the limit to try next while none that fits has been found.
func (m *meter) seek(ratio float64) float64 {
	m.note(ratio < quiet)
	m.streak = 0
	return seekGrowth * m.limit
}

// retreat returns the limit after a window that was far overloaded: the one of the window
// before if that was fine, else to. A server whose throughput falls once it has too much makes
// a ratio that is no measure of how much too much it was.
func (m *meter) retreat(to float64) float64 {
	if fine := m.fine; to < fine && fine < m.limit {
		to = fine
	}
	m.fine = 0
	return to
}

// drop takes note of a drop, and returns the limit to be in force.
func (m *meter) drop(s Sample) float64 {
	m.begin(s)
	step := max(math.Log10(m.limit), 1)
	m.limit = max(min(m.limit, justBelow(s.Limit+1))-step, 1)
	m.seeking = false
	return min(m.wanted(), float64(s.Limit)-step)
}
