package machine

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/testkit"
)

// story is what a fuzzer tells: each choice is a byte.
type story []byte

// pick returns a choice of n.
func (s *story) pick(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

// rate returns the terms of a rate limiter, and its account.
func (s *story) rate() (t Terms, a Account) {
	t, a = Terms{Limit: 1 + s.pick(9), QueueLimit: s.pick(40)}, new(Bucket)
	if s.pick(2) == 0 {
		t.Step, t.Span = 1+s.pick(t.Limit), 1+int64(s.pick(9))
	} else {
		a = new(Segments)
		t.Step = 1 + s.pick(5)
		t.Span = int64(t.Step + s.pick(30))
		t.From = -int64(s.pick(int(t.Span)))
	}
	if s.pick(4) == 0 {
		t.Mode = NewestFirst
	}
	return t, a
}

// player plays requests to a machine, and keeps its grants.
type player struct {
	m      *Machine[int]
	now    int64
	late   bool // it is not told that time passes until something is asked for
	grants []Grant
	queued map[int]*Waiter[int]
	ids    int
	ended  []ending // since the latest step
}

// ending is what became of a request that waited.
type ending struct {
	id int
	Answer
}

func newPlayer(a Account, t Terms, late bool) *player {
	return &player{m: New[int](a, &t), late: late, queued: map[int]*Waiter[int]{}}
}

// pass lets time pass.
func (p *player) pass(d int64) {
	until := p.now + d
	for !p.late && p.now < until {
		p.now++
		p.m.Advance(p.now)
	}
	p.now = until
	p.m.Advance(until)
	p.settle()
}

// settle takes note of those whose wait has ended.
func (p *player) settle() {
	for w := p.m.Decided(); w != nil; w = w.Next() {
		delete(p.queued, w.Value)
		p.ended = append(p.ended, ending{w.Value, w.Answer})
		p.keep(w.Answer, w.N)
	}
}

// keep remembers a grant, as a lease does.
func (p *player) keep(a Answer, n int) {
	if a.Outcome != Granted {
		return
	}
	p.grants = append(p.grants, Grant{Permits: n, Epoch: p.m.Terms().Epoch, At: a.At, Missing: p.m.Terms().Limit - a.Left, FullAt: a.FullAt})
}

func (p *player) try(n int) Answer {
	a := p.m.Try(p.now, n)
	p.keep(a, n)
	return a
}

func (p *player) admit(n int, deadline int64) Answer {
	a := p.m.Admit(p.now, n, deadline, fair.Flow{}, false)
	if a.Outcome == Waiting {
		w := &Waiter[int]{N: n, Value: p.ids}
		p.queued[p.ids] = w
		p.m.Enqueue(p.now, w)
	}
	p.ids++
	p.keep(a, n)
	p.settle()
	return a
}

func (p *player) cancel(id int) bool {
	w := p.queued[id]
	if w == nil {
		return false
	}
	delete(p.queued, id)
	canceled := p.m.Cancel(p.now, w)
	p.settle()
	return canceled
}

// change settles the i-th grant to n.
func (p *player) change(i, n int) bool {
	g := p.grants[i]
	renewed := p.m.Settle(p.now, g, n)
	p.settle()
	switch {
	case renewed:
		g = Grant{Epoch: p.m.Terms().Epoch, At: p.now, Missing: p.m.Terms().Limit - p.m.Available(), FullAt: p.m.FullAt(p.now)}
	case n < g.Permits:
		g.Reduced = true
	}
	g.Permits = n
	p.grants[i] = g
	return renewed
}

func (p *player) reset() {
	t := *p.m.Terms()
	t.Epoch++
	p.m.Reset(p.now, &t)
	p.settle()
}

func (p *player) update(t Terms) {
	t.Epoch++
	p.m.Update(p.now, &t)
	p.settle()
}

// play tells the story to all players, and checks after each step.
func play(s story, players []*player, check func(said string)) {
	for len(s) > 1 {
		t := *players[0].m.Terms()
		n := s.pick(t.Limit + 2)
		said := "pass"
		switch op, arg := s.pick(16), s.pick(256); {
		case op < 3:
			said = "try"
			each(players, func(p *player) any { return p.try(n) })
		case op < 8:
			said = "admit"
			deadline := int64(Never)
			if arg%4 == 0 {
				deadline = players[0].now + int64(arg)
			}
			each(players, func(p *player) any { return p.admit(n, deadline) })
		case op < 9:
			said = "cancel"
			each(players, func(p *player) any { return p.cancel(arg % (p.ids + 1)) })
		case op < 11:
			said = "settle"
			each(players, func(p *player) any {
				if len(p.grants) == 0 {
					return nil
				}
				return p.change(len(p.grants)-1-arg%min(len(p.grants), 4), arg/16*2)
			})
		case arg == 0:
			said = "reset"
			each(players, func(p *player) any { p.reset(); return nil })
		case arg < 4:
			said = "update"
			t.Limit = max(n, t.Step, 1)
			if _, ok := players[0].m.account.(*Segments); ok {
				t.Limit = max(n, 1)
			}
			each(players, func(p *player) any { p.update(t); return nil })
		default:
			each(players, func(p *player) any { p.pass(int64(arg % 40)); return nil })
		}
		check(said)
		for _, p := range players {
			p.ended = nil
		}
	}
}

// each has all players do the same, with the same result.
func each(players []*player, do func(p *player) any) {
	first := do(players[0])
	for _, p := range players[1:] {
		if got := do(p); got != first {
			panic(differ{first, got})
		}
	}
}

type differ struct{ first, got any }

// randomStories calls f with stories that are the same each time.
func randomStories(n int, f func(s story)) {
	random := rand.New(rand.NewPCG(3, 4))
	for range n {
		s := make(story, 10+random.IntN(400))
		for i := range s {
			s[i] = byte(random.Uint32())
		}
		f(s)
	}
}

// checkLate plays a story to a machine that is told of each instant, and to one that is told
// that time has passed only when something is asked for.
func checkLate(t *testing.T, s story) {
	t.Helper()
	terms, account := s.rate()
	prompt, late := newPlayer(account, terms, false), newPlayer(Copy(account), terms, true)
	play(s, []*player{prompt, late}, func(said string) {
		require.Equal(t, prompt.ended, late.ended, said)
		require.Equal(t, prompt.m.Available(), late.m.Available(), said)
		require.Equal(t, prompt.m.Queued(), late.m.Queued(), said)
		require.Equal(t, prompt.m.Next(prompt.now), late.m.Next(late.now), said)
		require.Equal(t, prompt.m.FullAt(prompt.now), late.m.FullAt(late.now), said)
		since, idle := prompt.m.Idle()
		lateSince, lateIdle := late.m.Idle()
		require.Equal(t, idle, lateIdle, said)
		require.Equal(t, since, lateSince, said)
	})
}

// However late a machine is told that time has passed, its grants are those of one that is told
// immediately: the same, at the same instants.
func TestLatenessChangesNoGrant(t *testing.T) {
	randomStories(testkit.Rounds(3000), func(s story) { checkLate(t, s) })
}

func FuzzLate(f *testing.F) {
	randomStories(20, func(s story) { f.Add([]byte(s)) })
	f.Fuzz(func(t *testing.T, s []byte) {
		if len(s) < 500 {
			checkLate(t, s)
		}
	})
}
