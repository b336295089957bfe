package simulate

import (
	"container/heap"
	"slices"

	"github.com/sluice-go/sluice/internal/machine"
)

// step is one limit that a request has to pass, and the number of its limiter: an instance for each key.
type step struct {
	id   int
	rule *rule
}

// arrival is a request that comes, with the steps before it.
type arrival struct {
	at, took int64
	status   int
	steps    []step
}

// visit is a request on its way through its steps.
type visit struct {
	arrival

	passed []hold
	waiter machine.Waiter[*visit]
	queued bool // in some step
	turn   int  // counts waits, so that an event of an earlier one is known
}

// hold is what a request has of a step that it passed.
type hold struct {
	of    *instance
	grant machine.Grant
}

// player plays requests through limiters in virtual time.
type player struct {
	now       int64
	instances []*instance // by id
	events    events
	order     int
	told      observer
	factor    float64 // that all limits are multiplied by
	scaled    map[*rule]*machine.Terms
	spare     []*visit
}

// observer is told what becomes of each request.
type observer interface {
	arrived(a *arrival)
	queued(now int64, s *step, by int) // +1: begins to wait, -1: has ended to
	granted(now int64, a *arrival, queued bool)
	rejected(now int64, a *arrival, s *step)
	passed(s *step)
}

// play lets a request come. Requests come in the order of their times.
func (p *player) play(a *arrival) {
	p.until(a.at)
	p.now = a.at
	p.told.arrived(a)
	v := p.visit()
	v.arrival = *a
	p.proceed(v)
}

// finish plays until nothing happens any more, or only what never ends.
func (p *player) finish() { p.until(machine.Never - 1) }

// until plays all that happens up to an instant.
func (p *player) until(at int64) {
	for len(p.events) > 0 && p.events[0].at <= at {
		e := heap.Pop(&p.events).(event) //nolint:forcetypeassert // it holds nothing else
		p.now = e.at
		e.do(p)
	}
}

// proceed takes a request through the steps that are left, as far as it comes without waiting.
func (p *player) proceed(v *visit) {
	for len(v.passed) < len(v.steps) {
		s := &v.steps[len(v.passed)]
		m := p.instance(s)
		m.Advance(p.now)
		p.settle(m)
		switch answer := m.Admit(p.now, 1, machine.Never); answer.Outcome {
		case machine.Granted:
			p.pass(v, m, s)
		case machine.Waiting:
			p.settle(m) // the newest may have evicted others
			p.wait(v, m, s)
			return
		default:
			p.reject(v, s)
			return
		}
	}
	p.grant(v)
}

func (p *player) instance(s *step) *instance {
	for s.id >= len(p.instances) {
		p.instances = append(p.instances, nil)
	}
	m := p.instances[s.id]
	if m == nil {
		m = newInstance(p.terms(s.rule))
		p.instances[s.id] = m
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
		if p.scaled == nil {
			p.scaled = make(map[*rule]*machine.Terms)
		}
		p.scaled[r] = t
	}
	return t
}

func (p *player) pass(v *visit, m *instance, s *step) {
	v.passed = append(v.passed, hold{m, m.grant(p.now)})
	p.told.passed(s)
}

func (p *player) wait(v *visit, m *instance, s *step) {
	v.queued = true
	v.turn++
	v.waiter = machine.Waiter[*visit]{N: 1, Value: v}
	m.Wait(&v.waiter)
	p.told.queued(p.now, s, +1)
	if s.rule.maxWait > 0 {
		p.at(p.now+s.rule.maxWait, event{kind: giveUp, of: m, v: v, turn: v.turn})
	}
	p.setAlarm(m)
}

// settle goes on with those whose wait in m has ended.
func (p *player) settle(m *instance) {
	for w := m.Decided(); w != nil; {
		next := w.Next()
		v := w.Value
		s := &v.steps[len(v.passed)]
		p.told.queued(p.now, s, -1)
		if w.Answer.Outcome == machine.Granted {
			p.pass(v, m, s)
			p.proceed(v)
		} else {
			p.reject(v, s)
		}
		w = next
	}
	p.setAlarm(m)
}

// setAlarm has somebody look at m's queue when one in it can be served.
func (p *player) setAlarm(m *instance) {
	if due := m.Next(p.now); due < m.alarm {
		m.alarm = due
		p.at(due, event{kind: queueDue, of: m})
	}
}

// grant lets a request go to the server, and gives back what it holds when that is done.
func (p *player) grant(v *visit) {
	p.told.granted(p.now, &v.arrival, v.queued)
	if v.took > 0 && v.gives() {
		p.at(p.now+v.took, event{kind: done, v: v})
		return
	}
	p.end(v)
}

// gives reports whether something comes back at the end.
func (v *visit) gives() bool {
	for i, h := range v.passed {
		if h.of.Terms().Kind == machine.Concurrency || v.steps[i].rule.failures {
			return true
		}
	}
	return false
}

// end gives back what was held, last first, and what only failures cost.
func (p *player) end(v *visit) {
	failed := v.status >= 400 && v.status < 500
	for i, h := range slices.Backward(v.passed) {
		if h.of.Terms().Kind == machine.Concurrency || v.steps[i].rule.failures && !failed {
			h.of.giveBack(p.now, h.grant)
			p.settle(h.of)
		}
	}
	p.forget(v)
}

// reject turns a request away and gives back what it had, last first.
func (p *player) reject(v *visit, s *step) {
	p.told.rejected(p.now, &v.arrival, s)
	for _, h := range slices.Backward(v.passed) {
		h.of.giveBack(p.now, h.grant)
		p.settle(h.of)
	}
	p.forget(v)
}

// visit returns one to use, and forget takes it back.
func (p *player) visit() *visit {
	if n := len(p.spare); n > 0 {
		v := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return v
	}
	return new(visit)
}

func (p *player) forget(v *visit) {
	*v = visit{passed: v.passed[:0], turn: v.turn + 1}
	p.spare = append(p.spare, v)
}

// event is what happens at an instant.
type event struct {
	at    int64
	order int
	kind  eventKind
	of    *instance
	v     *visit
	turn  int
}

type eventKind uint8

const (
	queueDue eventKind = iota // permits are there for somebody in a queue
	done                      // a request has been answered
	giveUp                    // one has waited long enough
)

func (e event) do(p *player) {
	switch e.kind {
	case queueDue:
		if e.of.alarm == e.at {
			e.of.alarm = machine.Never
		}
		e.of.Advance(e.at)
		p.settle(e.of)
	case done:
		p.end(e.v)
	case giveUp:
		if e.v.turn != e.turn || !e.of.Cancel(e.at, &e.v.waiter) {
			return
		}
		s := &e.v.steps[len(e.v.passed)]
		p.told.queued(e.at, s, -1)
		p.reject(e.v, s)
		p.settle(e.of)
	}
}

func (p *player) at(at int64, e event) {
	if at == machine.Never {
		return
	}
	p.order++
	e.at, e.order = at, p.order
	heap.Push(&p.events, e)
}

// events is a heap: the earliest first, of those at one instant the one that was planned first.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	return e[i].order < e[j].order
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) } //nolint:forcetypeassert // see until
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
