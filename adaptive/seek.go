package adaptive

import "math"

// How the limit moves while none that fits is known, and by how much once one is.

const (
	seekGrowth = 1.6  // of the limit, from window to window, while it is sought
	near       = 1.15 // a step that is not worth a short window
	twice      = 2    // windows in a row must be overloaded for a limit to be found
	longStreak = 6    // windows in a row without queueing, after which the limit is sought again

	leastRoom, mostRoom = 0.06, 0.36 // shares of the limit that it grows by in a window without queueing
)

// beginSeek has the limit sought.
func (m *meter) beginSeek() {
	m.seeking, m.over, m.high, m.streak = true, 0, 0, 0
}

// seek returns the limit to try next, or reports that the one in force is overloaded and
// has been found. Between what fits and what was too much it goes half of the way.
func (m *meter) seek(ratio float64) (next float64, found bool) {
	if ratio >= overloaded {
		m.over++
		found = m.over == twice // once may be the noise of a short window
		m.seeking = !found
		return m.limit, found
	}
	m.over, m.fine = 0, 0
	if ratio < quiet {
		m.fits()
	}
	next = seekGrowth * m.limit
	if m.high == 0 {
		return next, false
	}
	if next = min(next, math.Sqrt(m.limit*m.high)); next < near*m.limit {
		m.seeking = false
		next = m.limit
	}
	return next, false
}

// blocked is for a probe whose limit could not be lowered: it is the least that there may be. What
// cannot be learned from below is learned from above, or the limit would stay there for ever;
// more and more seldom, if that was too much.
func (m *meter) blocked() bool {
	m.stuck++
	m.saturated = 0
	if m.stuck < 2 || m.stuck&(m.stuck-1) != 0 {
		return m.baseline > 0
	}
	m.limit *= seekGrowth
	m.beginSeek()
	m.over = twice - 1 // nothing is lost by a mistake: it is tried again
	m.forget()
	return false
}

// note takes note of a window that is not far overloaded: whether there was queueing.
func (m *meter) note(fine bool) {
	if !fine {
		m.streak, m.fine = 0, 0
		return
	}
	m.fits()
	m.streak++
	if m.streak == longStreak {
		m.beginSeek()
	}
}

// fits takes note that nothing queued at the limit.
func (m *meter) fits() {
	m.fine = min(m.limit, m.full.level())
	m.stuck = 0
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

// room returns the share by which the limit may grow in a window without queueing: more and
// more, by haste, while there is none.
func (m *meter) room(haste float64) float64 {
	return min(leastRoom*math.Pow(haste, float64(max(m.streak-2, 0))), mostRoom)
}

// inUse returns limit, or what is in flight if that is less: no more than that can have been too
// much.
func (m *meter) inUse(limit float64) float64 { return min(limit, m.full.level()+1) }
