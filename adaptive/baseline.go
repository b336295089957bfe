package adaptive

import (
	"math"
	"slices"
)

// The baseline of a meter: the mean latency of the latest probes.

const (
	baselinePer   = 30  // samples of the baseline, per unit of the limit
	leastBaseline = 600 // samples, however small the limit is
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
