package simulate

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-go/sluice/internal/heap"
	"github.com/sluice-go/sluice/internal/machine"
)

// request is one request with what it has to pass.
type request struct {
	at, took int64
	status   int
	coarse   bool // at is the second, and the request came at some time in it
	steps    []step
}

// step is one limit that a request has to pass, and the number of its limiter: there is one for each key.
type step struct {
	id   int
	rule *rule
}

// visit is a request on its way through its steps.
type visit struct {
	request

	grants   []grant // of the steps that it has passed
	deadline int64   // of its waits in the policy that it is at
	waiter   machine.Waiter[*visit]
	queued   bool // it has waited, at some step
	waits    int  // their number, which tells an event of an earlier wait
}

// grant is what a request has of a step that it has passed.
type grant struct {
	limiter *limiter
	grant   machine.Grant
}

// player plays requests through limiters in virtual time.
type player struct {
	now       int64
	limiters  []*limiter // by id
	events    *heap.Heap[event]
	scheduled int // events, ever
	observer  observer
	factor    float64 // of all limits
	scaled    map[*rule]*machine.Terms
	spare     []*visit
}

// observer is notified of what happens to each request.
type observer interface {
	arrived(q *request)
	queued(now int64, s *step)   // a wait begins
	dequeued(now int64, s *step) // a wait has ended
	passed(s *step)
	granted(now int64, q *request, queued bool) // all steps are passed
	rejected(now int64, q *request, s *step)
}

func newPlayer(o observer, factor float64) *player {
	return &player{
		observer: o, factor: factor, scaled: make(map[*rule]*machine.Terms),
		events: heap.New(func(a, b event) bool { return cmp.Or(cmp.Compare(a.at, b.at), a.number-b.number) < 0 }),
	}
}

// play plays a request. Requests come in the order of their times.
func (p *player) play(q *request) {
	p.until(q.at)
	p.now = q.at
	p.observer.arrived(q)
	v := p.visit()
	v.request = *q
	p.proceed(v)
}

// finish plays until nothing more happens.
func (p *player) finish() { p.until(machine.Never - 1) }

// until plays what happens up to an instant.
func (p *player) until(at int64) {
	for p.events.Len() > 0 && p.events.First().at <= at {
		e := p.events.Pop()
		p.now = e.at
		p.handle(e)
	}
}

// proceed takes a request through the steps that are left, as far as it comes without a wait.
func (p *player) proceed(v *visit) {
	for len(v.grants) < len(v.steps) {
		s := v.step()
		if s.rule.first {
			v.deadline = machine.Never
			if most := s.rule.maxWait; most > 0 && most < math.MaxInt64-p.now {
				v.deadline = p.now + most
			}
		}
		m := p.limiter(s)
		m.Advance(p.now)
		p.resume(m)
		switch answer := m.Admit(p.now, 1, v.deadline); answer.Outcome {
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

// step returns the one that v is at.
func (v *visit) step() *step { return &v.steps[len(v.grants)] }

func (p *player) limiter(s *step) *limiter {
	for s.id >= len(p.limiters) {
		p.limiters = append(p.limiters, nil)
	}
	m := p.limiters[s.id]
	if m == nil {
		m = newLimiter(p.terms(s.rule))
		p.limiters[s.id] = m
	}
	return m
}

// terms returns those of a rule, for this player.
func (p *player) terms(r *rule) *machine.Terms {
	if p.factor == 1 {
		return r.terms
	}
	t, ok := p.scaled[r]
	if !ok {
		var err error
		if t, err = terms(scaled(r.limit, p.factor)); err != nil {
			t = r.terms // a limit so large that it cannot be doubled
		}
		p.scaled[r] = t
	}
	return t
}

func (p *player) pass(v *visit, m *limiter) {
	p.observer.passed(v.step())
	v.grants = append(v.grants, grant{m, m.grant(p.now)})
}

func (p *player) wait(v *visit, m *limiter) {
	v.queued = true
	v.waits++
	v.waiter = machine.Waiter[*visit]{N: 1, Value: v}
	m.Wait(&v.waiter)
	p.observer.queued(p.now, v.step())
	p.schedule(v.deadline, event{kind: deadlineOver, limiter: m, visit: v, wait: v.waits})
	p.setAlarm(m)
}

// resume goes on with the requests whose wait in m has ended.
func (p *player) resume(m *limiter) {
	for w := m.Decided(); w != nil; {
		next := w.Next()
		v := w.Value
		p.observer.dequeued(p.now, v.step())
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
func (p *player) setAlarm(m *limiter) {
	if due := m.Next(p.now); due < m.alarm {
		m.alarm = due
		p.schedule(due, event{kind: permitsCame, limiter: m})
	}
}

// grant lets a request go to the server, and gives back what it holds when that is done.
func (p *player) grant(v *visit) {
	p.observer.granted(p.now, &v.request, v.queued)
	if v.took > 0 && v.returns() {
		p.schedule(p.now+v.took, event{kind: answered, visit: v})
		return
	}
	p.end(v)
}

// returns reports whether the end of v may give back something.
func (v *visit) returns() bool {
	for i, g := range v.grants {
		if g.limiter.Terms().Kind == machine.Concurrency || v.steps[i].rule.failures {
			return true
		}
	}
	return false
}

// end gives back, last first, what was held and what only failures cost.
func (p *player) end(v *visit) {
	failed := v.status >= 400 && v.status < 500
	for i, g := range slices.Backward(v.grants) {
		if g.limiter.Terms().Kind == machine.Concurrency || v.steps[i].rule.failures && !failed {
			p.giveBack(g)
		}
	}
	p.forget(v)
}

// reject rejects a request at the step that it is at, and gives back what it has, last first.
func (p *player) reject(v *visit) {
	p.observer.rejected(p.now, &v.request, v.step())
	for _, g := range slices.Backward(v.grants) {
		p.giveBack(g)
	}
	p.forget(v)
}

func (p *player) giveBack(g grant) {
	g.limiter.giveBack(p.now, g.grant)
	p.resume(g.limiter)
}

// visit returns a visit to use, and forget takes it back.
func (p *player) visit() *visit {
	if n := len(p.spare); n > 0 {
		v := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return v
	}
	return new(visit)
}

func (p *player) forget(v *visit) {
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
	answered                      // the server has answered the visit
	deadlineOver                  // of the visit's wait
)

func (p *player) handle(e event) {
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
		p.observer.dequeued(e.at, e.visit.step())
		p.reject(e.visit)
		p.resume(e.limiter)
	}
}

// schedule adds an event, unless its instant never comes.
func (p *player) schedule(at int64, e event) {
	if at == machine.Never {
		return
	}
	p.scheduled++
	e.at, e.number = at, p.scheduled
	p.events.Push(e)
}
