package adaptive

import (
	"math"
	"slices"
)

// meter measures what [Gradient] and [Vegas] go by: the mean latency at the limit, and the
// mean latency without load, the baseline. It goes round in a cycle of two windows of
// samples, the first at the limit, the second at a part of it: the probe.
//
// # Why means
//
// By Little's law the mean latency is what is in flight over the throughput, whatever the
// distribution of service times. Once C requests saturate a server the throughput stays
// what it is, so the mean latency at a limit L is L/C times that without load; and the limit
// that fits is L times the baseline over it. The minimum, which TCP Vegas takes, says
// nothing of a server whose service times differ.
//
// # Why probes
//
// A baseline that is made of whatever samples come, however slowly it moves, is raised by
// load in the end: while demand is far above the limit there are no others. So the limit is
// lowered for a while to see what latency there is below. Nobody starves by it: the limit is
// lowered to a share, and what is lost is that share of the throughput for that while, or
// nothing if there was load enough to queue at the server.
//
// A probe that has the throughput of the full limit shows that the limit is far too high:
// the probe's level is the limit from then on. That is how a limit comes down from far above,
// where the baseline is not known yet. When less than the probe's share of the limit is in
// flight anyway, the samples are as good as a probe's, and there is no other.
type meter struct {
	longWindow int // samples that the baseline is the mean of; 0: by the limit

	limit   float64 // that is wanted, probes aside
	probing bool
	skip    int    // samples to come that were under way at another limit
	now     window // the samples of this phase
	full    window // the phase before a probe's

	short     float64  // the last mean latency at the limit
	baseline  float64  // 0: unknown
	noise     float64  // standard error of short over baseline, as a share
	probes    []window // that the baseline is the mean of, the oldest first
	streak    int      // cycles without queueing, as the algorithm counts them
	saturated int      // probes in a row that found the server saturated
	seeking   bool     // no limit that fits has been found yet: windows are short
}

// window is the samples of one phase.
type window struct {
	n        int
	sum      float64 // of durations, in seconds
	sumSq    float64
	inFlight float64 // the sum
}

func (w *window) add(s Sample) {
	d := s.Duration.Seconds()
	w.n++
	w.sum += d
	w.sumSq += d * d
	w.inFlight += float64(s.InFlight)
}

func (w *window) mean() float64  { return w.sum / float64(w.n) }
func (w *window) level() float64 { return w.inFlight / float64(w.n) }

// spread returns the standard error of the mean.
func (w *window) spread() float64 {
	m := w.mean()
	return math.Sqrt(max(w.sumSq/float64(w.n)-m*m, 0) / float64(w.n))
}

const (
	// What a probe leaves of the limit, when one that fits is known and before.
	probeShare, seekShare = 0.8, 0.6

	// A window ends when its mean is so exact, given as the share that its standard error is;
	// but has as many samples at least and at most, per unit of the limit and in all.
	precision, seekPrecision = 0.035, 0.08
	leastLength, leastWindow = 1.5, 60
	mostLength, mostWindow   = 40, 2000

	settleLength = 1.5 // samples that do not count after a change, per unit of the limit

	baselineLength, leastBaseline = 30, 600

	saturated = 0.75 // share of the fall in load that the latency follows

	// A probe level above this share of what the limit is now says nothing of no load.
	unloaded = 0.85
)

// add takes a sample, and reports whether a cycle has ended: then short and baseline are
// new, and the caller sets the limit.
func (m *meter) add(s Sample) bool {
	if m.limit == 0 {
		m.limit, m.seeking = float64(s.Limit), true
	}
	if m.skip > 0 {
		m.skip--
		return false
	}
	m.now.add(s)
	if !m.enough(float64(s.Limit)) {
		return false
	}
	w := m.now
	m.now = window{}
	if m.probing {
		m.probing = false
		m.skip = settle(m.limit)
		m.probed(w)
		return true
	}
	m.full, m.short = w, w.mean()
	// What the limit is may not be what was wanted: it is bounded, and does not grow while
	// less than half of it is used.
	m.limit = min(m.limit, float64(s.Limit)+1-1e-9)
	if level := m.probe(); level < 1 || w.level() <= level {
		m.keep(w)
		return true
	}
	m.probing = true
	m.skip = settle(m.limit)
	return false
}

// settle returns how many samples were under way, or in the server's queue, when the limit
// changed to or from this one.
func settle(limit float64) int { return int(settleLength*limit) + 1 }

// enough reports whether the present window has the samples that it needs.
func (m *meter) enough(limit float64) bool {
	n := float64(m.now.n)
	if n < max(leastLength*limit, leastWindow) {
		return false
	}
	share := precision
	if m.seeking {
		share = seekPrecision
	}
	mean := m.now.mean()
	return m.now.sumSq/n-mean*mean <= share*share*mean*mean*n || n >= max(mostLength*limit, mostWindow)
}

// wanted returns the limit to be in force now.
func (m *meter) wanted() float64 {
	if m.probing {
		return m.probe()
	}
	return m.limit
}

// probe returns the limit of a probe.
func (m *meter) probe() float64 {
	if m.seeking {
		return math.Floor(seekShare * m.limit)
	}
	return math.Floor(probeShare * m.limit)
}

// probed takes note of a probe's window.
func (m *meter) probed(w window) {
	full, part := m.full.level(), w.level()
	if part > unloaded*full {
		return // the limit could not be lowered
	}
	// How much of the fall in load the latency has followed: 1 if the server was saturated at
	// both levels, so that the throughput was the same; 0 if it was at neither.
	followed := (m.short/w.mean() - 1) / (full/part - 1)
	m.saturated++
	if followed < saturated {
		m.saturated = 0
	}
	if m.saturated > 1 || m.saturated > 0 && m.seeking {
		m.limit = max(part, 1)
		m.skip = 0
		m.probes = nil
		m.baseline = 0 // the caller lets it be
		return
	}
	if followed < saturated/2 || m.baseline == 0 || w.mean() < m.baseline {
		m.keep(w)
	}
}

// keep makes w part of the baseline.
func (m *meter) keep(w window) {
	long := m.longWindow
	if long == 0 {
		long = max(int(baselineLength*m.limit), leastBaseline)
	}
	total := w.n
	from := len(m.probes)
	for from > 0 && total < long {
		from--
		total += m.probes[from].n
	}
	m.probes = slices.Delete(m.probes, 0, from)
	m.probes = slices.DeleteFunc(m.probes, func(old window) bool {
		return old.level() > unloaded*m.limit || differ(old, w)
	})
	m.probes = append(m.probes, w)
	var all window
	for _, p := range m.probes {
		all.n += p.n
		all.sum += p.sum
		all.sumSq += p.sumSq
	}
	m.baseline = all.mean()
	m.noise = math.Hypot(m.full.spread()/m.full.mean(), all.spread()/all.mean())
}

// differ reports whether the latencies of two windows can hardly be of the same server.
func differ(a, b window) bool {
	x, y := a.mean(), b.mean()
	sure := 4 * math.Hypot(a.spread(), b.spread())
	return math.Abs(x-y) > max(sure, 0.2*min(x, y))
}

// drop takes note of a drop, and returns the limit to be in force.
func (m *meter) drop(s Sample) float64 {
	if m.limit == 0 {
		m.limit, m.seeking = float64(s.Limit), true
	}
	step := max(math.Log10(m.limit), 1)
	m.limit = max(min(m.limit, float64(s.Limit)+1-1e-9)-step, 1)
	m.seeking = false
	return min(m.wanted(), float64(s.Limit)-step)
}

const (
	seekGrowth = 1.6  // of the limit, in each cycle, while it is sought
	overloaded = 1.25 // a ratio at which the limit has been found
)

// ratio returns the latency at the limit over that without load. What noise there is beyond
// the precision that windows aim at is counted in favour of the limit; else the limit would
// sink by it.
func (m *meter) ratio() float64 {
	doubt := max(m.noise-1.5*precision, 0)
	return m.short / m.baseline / (1 + doubt)
}

// room returns the share by which the limit grows in a cycle without queueing, more and more
// while there is none.
func (m *meter) room() float64 { return 0.06 * min(math.Pow(1.5, float64(max(m.streak-2, 0))), 6) }
