package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
)

// Request is one request with the limits that it has to pass. Instants and durations are nanoseconds.
type Request struct {
	At, Took int64
	Status   int
	Cost     int  // permits, from the response; below 0 if unknown. It is for rules that settle
	Coarse   bool // At is the second, and the request came at some time in it
	Steps    []Step
}

// Step is one limit that a request has to pass, and the number of its limiter: there is one per key.
type Step struct {
	ID   int
	Rule *Rule
	Flow *Flow // nil if the request has none
}

// Flow is the flow of a request, for limits whose order is fair-share.
type Flow struct {
	fair.Flow

	ID int // its number, from 0
}

// flow returns the flow of the step, or the zero flow.
func (s *Step) flow() fair.Flow {
	if s.Flow == nil {
		return fair.Flow{}
	}
	return s.Flow.Flow
}

// visit is a request on its way through its steps.
type visit struct {
	Request

	grants   []grant // of the steps that it has passed
	deadline int64   // of its waits in the policy that it is at
	waiter   machine.Waiter[*visit]
	queued   bool // it has waited, at some step
	waits    int  // the number of waits, by which an event of an earlier wait is known
}

// grant is the grant of a step that a request has passed.
type grant struct {
	limiter *limiter // nil if a policy in shadow would have rejected the request, which then holds nothing
	grant   machine.Grant
}

// Player plays requests through limiters in virtual time.
type Player struct {
	now       int64
	limiters  []*limiter // by id
	events    *Heap[event]
	scheduled int // events, ever
	observer  Observer
	factor    float64                  // of all limits
	own       map[*Rule]*machine.Terms // scaled terms, and those of calendar windows
	spare     []*visit

	// Zero is the Unix time of instant 0, in nanoseconds, for windows of the calendar. It is set before the
	// first request is played.
	Zero int64
}

// Observer is notified of what happens to each request.
type Observer interface {
	Arrive(q *Request)
	Queue(now int64, s *Step)   // a wait starts
	Dequeue(now int64, s *Step) // a wait has ended
	Pass(s *Step)
	Shadow(s *Step)                           // its policy would have rejected the request
	Grant(now int64, q *Request, queued bool) // all steps are passed
	Reject(now int64, q *Request, s *Step)
}

// NewPlayer returns a player that notifies o of what happens. factor, 0.5, 1 or 2, scales all limits.
func NewPlayer(o Observer, factor float64) *Player {
	return &Player{
		observer: o, factor: factor, own: make(map[*Rule]*machine.Terms),
		events: NewHeap(func(a, b event) bool { return cmp.Or(cmp.Compare(a.at, b.at), a.number-b.number) < 0 }),
	}
}

// Play plays a request. Requests come in the order of their times, which start at 0.
func (p *Player) Play(q *Request) {
	p.until(q.At)
	p.now = q.At
	p.observer.Arrive(q)
	v := p.visit()
	v.Request = *q
	p.proceed(v)
}

// Finish plays all events that are left, and returns the instant of the last one.
func (p *Player) Finish() int64 {
	p.until(machine.Never - 1)
	return p.now
}

// Available returns the permits that the limiter of a step has at the latest event.
func (p *Player) Available(s *Step) int { return p.limiter(s).Available() }

// AvailableAt plays what happens up to an instant, which is not after the next request, and returns the permits that the
// limiter of a step has then.
func (p *Player) AvailableAt(at int64, s *Step) int {
	p.until(at)
	p.now = at
	m := p.limiter(s)
	m.Advance(at)
	p.resume(m)
	return m.Available()
}

// until plays what happens up to an instant.
func (p *Player) until(at int64) {
	for p.events.Len() > 0 && p.events.First().at <= at {
		e := p.events.Pop()
		p.now = e.at
		p.handle(e)
	}
}

// proceed takes a request through the steps that are left, until it has to wait.
func (p *Player) proceed(v *visit) {
	for len(v.grants) < len(v.Steps) {
		s := v.step()
		if s.Rule.First {
			v.deadline = machine.Never
			if most := s.Rule.MaxWait; most > 0 && most < math.MaxInt64-p.now {
				v.deadline = p.now + most
			}
		}
		m := p.limiter(s)
		m.Advance(p.now)
		p.resume(m)
		if s.Rule.Shadow {
			if m.Try(p.now, s.Rule.Cost).Outcome == machine.Granted {
				p.pass(v, m)
			} else {
				p.shadow(v)
			}
			continue
		}
		switch answer := m.Admit(p.now, s.Rule.Cost, v.deadline, s.flow(), false); answer.Outcome {
		case machine.Granted:
			p.pass(v, m)
		case machine.Waiting:
			p.resume(m) // the newest may have evicted others
			p.wait(v, m)
			return
		default:
			p.reject(v)
			return
		}
	}
	p.grant(v)
}

// shadow takes a request past its current policy, which would have rejected it, and returns the permits of that policy.
func (p *Player) shadow(v *visit) {
	p.observer.Shadow(v.step())
	first := len(v.grants)
	for !v.Steps[first].Rule.First {
		first--
		p.undo(v.grants[first])
	}
	v.grants = append(v.grants[:first], grant{})
	for len(v.grants) < len(v.Steps) && !v.step().Rule.First {
		v.grants = append(v.grants, grant{})
	}
}

// step returns the current step of v.
func (v *visit) step() *Step { return &v.Steps[len(v.grants)] }

func (p *Player) limiter(s *Step) *limiter {
	for s.ID >= len(p.limiters) {
		p.limiters = append(p.limiters, nil)
	}
	m := p.limiters[s.ID]
	if m == nil {
		m = &limiter{machine.New[*visit](p.terms(s.Rule)), machine.Never}
		p.limiters[s.ID] = m
	}
	return m
}

// terms returns the terms of a rule for this player.
func (p *Player) terms(r *Rule) *machine.Terms {
	if p.factor == 1 && r.terms.Calendar == nil {
		return r.terms
	}
	t, ok := p.own[r]
	if !ok {
		t = r.terms
		if p.factor != 1 {
			if s, err := terms(scaled(r.Limit, p.factor)); err == nil { // else so large that it cannot be doubled
				t = s
			}
		}
		if t.Calendar != nil {
			t = placed(t, p.Zero)
		}
		p.own[r] = t
	}
	return t
}

func (p *Player) pass(v *visit, m *limiter) {
	p.observer.Pass(v.step())
	v.grants = append(v.grants, grant{m, m.grant(p.now, v.step().Rule.Cost)})
}

func (p *Player) wait(v *visit, m *limiter) {
	v.queued = true
	v.waits++
	v.waiter = machine.Waiter[*visit]{N: v.step().Rule.Cost, Value: v}
	v.waiter.SetFlow(v.step().flow())
	m.Enqueue(p.now, &v.waiter)
	p.observer.Queue(p.now, v.step())
	p.schedule(v.deadline, event{kind: deadlineOver, limiter: m, visit: v, wait: v.waits})
	p.resume(m) // it may be next
}

// resume continues with the requests whose wait in m has ended.
func (p *Player) resume(m *limiter) {
	for w := m.Decided(); w != nil; {
		next := w.Next()
		v := w.Value
		p.observer.Dequeue(p.now, v.step())
		if w.Answer.Outcome == machine.Granted {
			p.pass(v, m)
			p.proceed(v)
		} else {
			p.reject(v)
		}
		w = next
	}
	p.setAlarm(m)
}

// setAlarm schedules a look at the queue of m when a request in it can be served.
func (p *Player) setAlarm(m *limiter) {
	if due := m.Next(p.now); due < m.alarm {
		m.alarm = due
		p.schedule(due, event{kind: permitsCame, limiter: m})
	}
}

// grant passes a request to the server; when the server is done, the permits that it holds are returned.
func (p *Player) grant(v *visit) {
	p.observer.Grant(p.now, &v.Request, v.queued)
	if v.Took > 0 && v.returns() {
		p.schedule(p.now+v.Took, event{kind: answered, visit: v})
		return
	}
	p.end(v)
}

// returns reports whether the end of v may return permits.
func (v *visit) returns() bool {
	for i, g := range v.grants {
		rule := v.Steps[i].Rule
		if g.limiter != nil && (g.limiter.Terms().Kind == machine.Concurrency || rule.Failures || v.settles(rule)) {
			return true
		}
	}
	return false
}

// settles reports whether the end of v corrects its cost under a rule.
func (q *Request) settles(r *Rule) bool { return r.Settle != "" && q.Cost >= 0 }

// end returns, last first, the permits that were held and those that only failures cost, and settles the others.
func (p *Player) end(v *visit) {
	failed := v.Status >= 400 && v.Status < 500
	for i, g := range slices.Backward(v.grants) {
		rule := v.Steps[i].Rule
		switch {
		case g.limiter == nil:
		case g.limiter.Terms().Kind == machine.Concurrency || rule.Failures && !failed:
			p.undo(g)
		case v.settles(rule):
			g.limiter.settle(p.now, g.grant, v.Cost)
			p.resume(g.limiter)
		}
	}
	p.forget(v)
}

// reject rejects a request at its current step, and returns its permits, last first.
func (p *Player) reject(v *visit) {
	p.observer.Reject(p.now, &v.Request, v.step())
	for _, g := range slices.Backward(v.grants) {
		p.undo(g)
	}
	p.forget(v)
}

func (p *Player) undo(g grant) {
	if g.limiter == nil {
		return
	}
	g.limiter.undo(p.now, g.grant)
	p.resume(g.limiter)
}

// visit returns a visit to use, which forget takes for reuse.
func (p *Player) visit() *visit {
	if n := len(p.spare); n > 0 {
		v := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return v
	}
	return new(visit)
}

func (p *Player) forget(v *visit) {
	*v = visit{grants: v.grants[:0], waits: v.waits + 1}
	p.spare = append(p.spare, v)
}

// event is something that happens at an instant.
type event struct {
	at      int64
	number  int // events at one instant happen in the order in which they were scheduled
	kind    eventKind
	limiter *limiter
	visit   *visit
	wait    int
}

type eventKind uint8

const (
	permitsCame  eventKind = iota // a request in the limiter's queue can be served
	answered                      // the server has responded to the visit
	deadlineOver                  // of the visit's wait
)

func (p *Player) handle(e event) {
	switch e.kind {
	case permitsCame:
		if e.limiter.alarm == e.at {
			e.limiter.alarm = machine.Never
		}
		e.limiter.Advance(e.at)
		p.resume(e.limiter)
	case answered:
		p.end(e.visit)
	case deadlineOver:
		if e.visit.waits != e.wait || !e.limiter.Cancel(e.at, &e.visit.waiter) {
			return
		}
		p.observer.Dequeue(e.at, e.visit.step())
		p.reject(e.visit)
		p.resume(e.limiter)
	}
}

// schedule adds an event, unless its instant never comes.
func (p *Player) schedule(at int64, e event) {
	if at == machine.Never {
		return
	}
	p.scheduled++
	e.at, e.number = at, p.scheduled
	p.events.Push(e)
}
