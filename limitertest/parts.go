package limitertest

import (
	"io"
	"math/rand/v2"
	"slices"

	"github.com/sluice-go/sluice/core"
)

// part is a part of the rules. It is checked by plays, in which its step is frequent and the steps of the parts before
// it are made too, or by check, or by both.
type part struct {
	name  string
	needs []need
	step  func(*play)
	check func(*subject)
}

// parts returns all parts, in the order in which they are checked.
func parts() []part {
	return []part{
		{name: "requests", step: (*play).request, check: settlesByLeases},
		{name: queue, step: (*play).wait, check: orderIsSaid},
		{name: statistics, needs: []need{reporter}, step: (*play).request},
		{name: closing, needs: []need{closer}, step: (*play).later},
		{name: refunds, needs: []need{finite, refunder}, step: func(p *play) { p.refund(p.pick()) }},
		{name: settlements, needs: []need{settler}, step: (*play).settle},
		{name: resets, needs: []need{replenished, resetter}, step: (*play).reset},
		{name: updates, needs: []need{finite, updatable}, step: (*play).update, check: updateKeepsDebt},
		{name: reservations, needs: []need{finite, reserver}, step: func(p *play) { p.reserve(p.permits()) }},

		{name: "retry after", needs: []need{finite, automatic}, step: func(p *play) { p.await(false) }},
		{name: "retry after in a queue", needs: []need{finite, automatic, queued}, step: func(p *play) { p.await(true) }},
		{name: "deadlines", needs: []need{finite, automatic, queued}, step: (*play).hopeless},
		{name: "replenishment", needs: []need{finite, replenished}, check: replenishment},
		{name: "idle", needs: []need{idler}, check: idleFor},

		{name: "flows", needs: []need{finite, fair}, check: flows},
		{name: "concurrent callers", needs: []need{finite}, check: crowds},
		{name: "switch", needs: []need{drains, queued}, check: switchTakesOut},
	}
}

// need is a condition under which a part applies, and why it does not without.
type need struct {
	why string
	met func(*subject) bool
}

var (
	finite      = need{"the limiter is unlimited", func(s *subject) bool { return !s.unlimited() }}
	drains      = need{"the limiter never rejects", func(s *subject) bool { return !s.unlimited() || s.Gate != nil }}
	queued      = need{"the limiter has no queue", func(s *subject) bool { return s.QueueLimit > 0 }}
	replenished = need{"permits do not come back with time", func(s *subject) bool { return s.Refill > 0 }}
	automatic   = need{"permits do not come back by themselves", func(s *subject) bool { return s.Refill > 0 && !s.Manual }}
	updatable   = need{"there is no Config.Update", func(s *subject) bool { return s.Update != nil }}
	fair        = need{"the order is not fair-share, or the queue is too short to tell", func(s *subject) bool {
		return s.QueueOrder == core.FairShare && s.QueueLimit/s.piece() >= 2
	}}

	reporter = need{"the limiter is no core.Reporter", has[core.Reporter]}
	closer   = need{"the limiter is no io.Closer", has[io.Closer]}
	settler  = need{"the leases cannot be settled", (*subject).settlesLeases}
	refunder = need{"the leases cannot be refunded", func(s *subject) bool { return s.Holds || s.settlesLeases() }}
	resetter = need{"the limiter is no core.Resetter", has[core.Resetter]}
	idler    = need{"the limiter is no core.Idler", has[core.Idler]}
	reserver = need{"the limiter can't reserve", func(s *subject) bool {
		// Reserve of a chain or a view of a limiter that is no Reserver fails.
		l := s.New()
		defer s.leave(l)
		r, ok := l.(core.Reserver)
		return ok && r.Reserve(0).Err() == nil
	}}
)

// settlesLeases reports whether the limiter's leases can be settled, unlike those of [core.Grant].
func (s *subject) settlesLeases() bool {
	l := s.New()
	defer s.leave(l)
	lease := l.TryAcquire(1).Settle(2)
	defer lease.Release()
	return lease.Permits() == 2
}

func has[T any](s *subject) bool {
	_, ok := s.l.(T)
	return ok
}

// tests returns the tests of the part.
func (pt part) tests(c Config) []func(*subject) {
	var tests []func(*subject)
	if pt.step != nil {
		for seed := range c.plays() {
			tests = append(tests, func(s *subject) { pt.play(s, seed).run() })
		}
	}
	if pt.check != nil {
		tests = append(tests, pt.check)
	}
	return tests
}

// play returns a play of the part.
func (pt part) play(s *subject, seed uint64) *play {
	p := &play{subject: s, m: newModel(s.Config), random: rand.New(rand.NewPCG(seed, 0)), move: pt.step}
	for _, reached := range parts() {
		if s.reaches(reached.name) {
			p.moves = append(p.moves, reached.step)
		}
	}
	return p
}

// reach sets which parts the limiter is tested for: those up to this one that apply. It reports whether
// this one applies.
func (pt part) reach(s *subject) bool {
	for _, earlier := range parts() {
		why := earlier.unmet(s)
		if why == "" {
			s.reached = append(s.reached, earlier.name)
		}
		if earlier.name == pt.name {
			s.skipped = why
			break
		}
	}
	return s.skipped == ""
}

// unmet returns the first reason why a part does not apply, "" if it does.
func (pt part) unmet(s *subject) string {
	if slices.Contains(s.Skip, pt.name) {
		return "Config.Skip"
	}
	for _, need := range pt.needs {
		if !need.met(s) {
			return need.why
		}
	}
	return ""
}

// partNames returns the names of all parts.
func partNames() []string {
	names := make([]string, 0, len(parts()))
	for _, part := range parts() {
		names = append(names, part.name)
	}
	return names
}
