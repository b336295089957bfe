package adaptive

import "math"

// How a meter judges a probe: did the server do less with less in it, or as much as before?

const (
	// How far the latency followed the load down: 1 if all of the way, as with a server that is
	// saturated at both levels; and on average as far as this with one that is not, at a limit that
	// fits.
	saturatedFollows, fittingFollows = 1, 0.5

	// A probe whose latency followed less than this was not under load itself.
	hardlyFollows = 0.375

	// If it followed further than this, by so many standard errors, the server did less because
	// it had too much: the probe may well have left it room.
	collapses, surelyCollapses = 1.3, 4

	leastError = 0.05 // standard error of how far it followed, whatever the windows say

	// What speaks for a saturated server is a logarithm of how much likelier it is: enough to
	// lower the limit for good, and while seeking, when little is lost by a mistake; what makes
	// probes go deeper until it is settled; and what one probe counts at most.
	enoughSaid, enoughSaidSeeking = 6, 3
	doubtful                      = 1.5
	mostSaid                      = 4

	// A probe has the latency of one that left the server room if it is below so many times that,
	// and so many probes ago at most.
	alike        = 1.15
	mostBelieved = 16

	contrast = 1.3 // of the levels, for a probe to show that it left room
)

// probed takes note of a probe's window, and reports whether the ratio is to be used.
func (m *meter) probed(w window) bool {
	full, part := m.full.level(), w.level()
	switch {
	case w.mean() == 0: // there is no latency at all
		return m.baseline > 0
	case part > (1+lower)/2*full:
		return m.blocked()
	}
	followed := (m.full.mean()/w.mean() - 1) / (full/part - 1)
	m.weigh(w, followed)
	if m.saturated >= m.enoughSaid() {
		m.saturated, m.streak = 0, 0
		m.seeking = m.seeking || m.baseline > 0 && m.ratio() > farOverloaded
		m.limit = max(part, 1)
		m.high, m.over = full, 0
		m.skip = 0
		m.forget()
		return false
	}
	switch { // what may have been under load itself does not raise the baseline
	case w.mean() > m.full.mean() && differ(w, m.full):
		// Less load and more latency: the server is another than it was a window ago.
		m.rest = 0
	case followed < hardlyFollows || m.baseline == 0 || w.mean() < m.baseline:
		m.keep(w)
	}
	return m.baseline > 0
}

// weigh adds what a probe says of whether the server was saturated in it, as in a sequential
// test (CUSUM, Page 1954): a single probe says little, as the noise of two windows is a large
// share of the small fall in load.
func (m *meter) weigh(w window, followed float64) {
	noise := math.Hypot(m.full.spread(), w.spread()) * m.full.mean() / w.mean() / (m.full.level()/w.level() - 1)
	noise = max(noise, leastError)
	if m.isFree(w, followed) || followed > collapses+surelyCollapses*noise {
		m.saturated = 0
		return
	}
	const mid, apart = (saturatedFollows + fittingFollows) / 2, saturatedFollows - fittingFollows
	m.saturated = max(m.saturated+min((followed-mid)*apart/(noise*noise), mostSaid), 0)
}

func (m *meter) enoughSaid() float64 {
	if m.seeking {
		return enoughSaidSeeking
	}
	return enoughSaid
}

// isFree reports whether the latency of a probe is known to be that without load, although
// the throughput was that of the full limit: the limit is some permits above what the server can
// take, and the probe is just there.
func (m *meter) isFree(w window, followed float64) bool {
	if followed < hardlyFollows && m.full.level() > contrast*w.level() && m.full.level() < small {
		m.free, m.believed = w.mean(), 0
		return true
	}
	m.believed++
	return m.full.level() < small && m.believed <= mostBelieved && w.mean() < alike*m.free
}
