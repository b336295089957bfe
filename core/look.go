package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// The methods that report a limiter's state. An open word has most of it without the mutex, which
// keeps Available and Statistics below the cost of x/time/rate's Tokens (bench: available,
// statistics).

// Available returns the number of permits that could be taken now.
func (e *engine) Available() int {
	if t := e.epoch.Load(); t != nil {
		if n, ok := t.available(t.word.Load()); ok {
			return n
		}
	}
	return e.statisticsSlow().Available
}

// Statistics returns the limiter's state and counts. It continues to work after Close.
func (e *engine) Statistics() Statistics {
	t := e.epoch.Load()
	if t == nil {
		return Statistics{}
	}
	// What the word does not count changes while it is shut, or for a request of zero permits. If
	// it is the same before and after, the two belong together.
	granted := e.granted.Load()
	w := t.word.Load()
	n, ok := t.available(w)
	if idle := t.Kind == machine.Concurrency && n == t.Limit; ok && !idle && e.granted.Load() == granted && e.epoch.Load() == t {
		return Statistics{Limit: t.Limit, Available: n, Granted: granted + t.grants(w), Rejected: e.rejected.Load()}
	}
	return e.statisticsSlow()
}

func (e *engine) statisticsSlow() Statistics {
	if e.epoch.Load() == nil {
		return Statistics{}
	}
	now := e.lock()
	s := Statistics{
		Limit:     e.m.Terms().Limit,
		Available: e.m.Available(),
		Queued:    e.m.Queued(),
		Granted:   e.granted.Load() + e.number(),
		Rejected:  e.rejected.Load(),
	}
	e.idle(now)
	e.unlock(now)
	return s
}

// available returns the permits that could be taken now, as read from an epoch's word; false if
// the word does not have.
func (t *ticket) available(w uint64) (n int, ok bool) {
	if w&shut != 0 {
		return 0, false
	}
	switch t.Kind {
	case machine.Concurrency:
		return int(w & freeMask), true
	case machine.Window:
		return int(w & windowMask), t.inSegment(t.clock())
	case machine.TokenBucket:
		now := t.clock() - t.From
		l := t.Unpack(w, now)
		return t.Limit - l.Lack(&t.Terms, now), l.Full-now <= l.Reach(&t.Terms)
	}
	return 0, false
}

// grants returns how many grants an epoch's word and the epochs before it have counted.
func (t *ticket) grants(w uint64) uint64 {
	n := t.number(t.generation(w))
	if t.Kind == machine.Concurrency {
		n += w & besideMask / besideOne
	}
	return n
}

// IdleFor returns how long all permits have been available, and whether they are.
func (e *engine) IdleFor() (time.Duration, bool) {
	if e.epoch.Load() == nil {
		return 0, false
	}
	now := e.lock()
	d, idle := e.idle(now)
	e.unlock(now)
	return d, idle
}

// idle is IdleFor. The mutex is held.
func (e *engine) idle(now int64) (time.Duration, bool) {
	since, idle := e.m.Idle()
	if !idle {
		return 0, false
	}
	if t := e.epoch.Load(); t.Kind == machine.Concurrency {
		// Its releases read no clock. It has been idle since it was last seen so if it has granted
		// nothing since.
		now = t.clock()
		if grants := uint32(e.granted.Load() + e.number()); grants != e.grants || e.last > now {
			e.last, e.grants = now, grants
		}
		since = e.last
	}
	return time.Duration(max(now-since, 0)), true
}
