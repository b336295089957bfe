package adaptive

import (
	"math"
	"slices"
	"time"
)

// The baseline of a meter: the mean latency of the latest probes.

const (
	baselinePer   = 30  // samples of the baseline, per unit of the limit
	leastBaseline = 600 // samples, however small the limit is

	brief     = 10 * time.Microsecond // for which leases are held that are costly to time
	startling = 10 * brief            // for such a lease
)

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
	long := m.long(w)
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

// long returns how many samples the baseline is to be the mean of.
func (m *meter) long(w window) int {
	if m.longWindow > 0 {
		return m.longWindow
	}
	return max(int(baselinePer*w.level()), leastBaseline)
}

// atRest reports whether there is nothing to be learned after a window with little in flight,
// and to time the leases costs much of what they do: a baseline of all the samples it is to
// have, the latency that it says, and leases as short as some hundred readings of the clock. Then
// a share of the samples is enough to see that this goes on, until half of the limit is in use.
func (m *meter) atRest(w window) bool {
	return w.level() < m.limit/2 && w.mean() < float64(brief) && m.pool().n >= m.long(w) && m.ratio() < quiet
}

func (m *meter) rests() bool { return m.resting }

// wakes reports whether a sample ends a rest.
func wakes(limit, inFlight int, held time.Duration) bool {
	return inFlight >= limit-inFlight || held > startling
}

// forget is for a baseline that may have been under load.
func (m *meter) forget() { m.probes, m.baseline, m.free = nil, 0, 0 }

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
