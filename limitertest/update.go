package limitertest

import (
	"errors"
	"slices"

	"github.com/sluice-go/sluice/core"
)

// update changes the limit, or tries to.
func (p *play) update() {
	if !p.reaches(updates) {
		return
	}
	limit := []int{-1, 0, p.m.limit + 1, p.m.limit + 3, p.m.limit - 1, 1, p.Limit}[p.random.IntN(7)]
	if limit < 1 || p.m.closed {
		p.badUpdate(limit)
		return
	}
	if p.m.timed && len(p.m.waiting) > 0 {
		return
	}
	was := p.m.limit
	p.m.limit = limit
	for _, c := range slices.Clone(p.m.waiting) {
		if c.n > limit {
			p.m.leave(c)
			c.want = core.ErrPermitsExceedLimit
		}
	}
	p.m.serve()
	p.updates(limit)
	if p.m.timed { // a bucket keeps the tokens that it has, a window counts what is taken
		kept := max(p.m.spent+limit-was, 0)
		if p.l.Available() == max(limit-max(kept, p.m.held), 0) {
			p.m.spent = kept
		}
		p.over = true // which of the two it is may not show
	}
	p.compare()
}

func (p *play) badUpdate(limit int) {
	switch err := p.Update(p.l, limit); {
	case err == nil:
		p.fatalf("Update to a limit of %d (closed: %v): nil, want an error", limit, p.m.closed)
	case limit > 0 && !errors.Is(err, core.ErrClosed):
		p.fatalf("Update after Close: %v, want core.ErrClosed", err)
	}
	p.compare()
}

// updateKeepsDebt expects a larger limit to pay no more of a debt than it makes room for; of a bucket that keeps
// its tokens only RetryAfter shows it.
func updateKeepsDebt(s *subject) {
	if !s.reaches(settlements) || s.Refill == 0 || s.Manual {
		return
	}
	s.settles(s.empties(), more(s.Limit, 3))
	retry, _ := core.RetryAfter.From(s.refused(1, "with a debt"))
	s.updates(s.Limit + 1)
	if d, _ := core.RetryAfter.From(s.refused(1, "after an Update, with a larger debt")); d != retry {
		s.errorf("RetryAfter with a debt after an Update: %v, before: %v, want the same", d, retry)
	}
}
