package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/heap"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/spec"
)

// Request is one request with the limits that it has to pass. Instants and durations are nanoseconds.
type Request struct {
	At, Took int64
	Status   int
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

	grants   []grant // grants of the steps that it has passed
	deadline int64   // deadline of its waits in the policy that it is at
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
	limiters  []*limiter // limiters by id
	events    heap.Heap[event, byTime]
	scheduled int // events, ever
	stats     *Stats
	limit     func(spec.Limit) spec.Limit // which limit is in place of a rule's
	kinds     map[*Rule]kind
	spare     []*visit

	// Zero is the Unix time of instant 0, in nanoseconds, for windows of the calendar. It is set before the
	// first request is played.
	Zero int64

	// Decided, unless it is nil, is called when a request is granted or rejected.
	Decided func(now int64, q *Request, granted bool)
}

// NewPlayer returns a player that counts in stats. limit returns the limit that is in place of a rule's.
func NewPlayer(stats *Stats, limit func(spec.Limit) spec.Limit) *Player {
	return &Player{
		stats: stats, limit: limit, kinds: make(map[*Rule]kind),
	}
}

// byTime is the order of events.
type byTime struct{ heap.Unplaced[event] }

func (byTime) Before(a, b event) bool { return cmp.Or(cmp.Compare(a.at, b.at), a.number-b.number) < 0 }

// Play plays a request. Requests come in the order of their times, which start at 0.
func (p *Player) Play(q *Request) {
	p.until(q.At)
	p.now = q.At
	p.stats.arrive(q)
	v := p.visit()
	v.Request = *q
	p.proceed(v)
}

// Finish plays all events that are left, and returns the time of the last one.
func (p *Player) Finish() int64 {
	p.until(machine.Never - 1)
	return p.now
}

// Available returns the permits that the limiters of a request have at the latest event: those of the limiter that has the fewest.
func (p *Player) Available(q *Request) int {
	least := math.MaxInt
	for i := range q.Steps {
		least = min(least, p.limiter(&q.Steps[i]).Available())
	}
	return least
}

// AvailableAt plays what happens up to a time, which is not after the next request, and returns what [Player.Available] does
// then.
func (p *Player) AvailableAt(at int64, q *Request) int {
	p.until(at)
	p.now = at
	for i := range q.Steps {
		m := p.limiter(&q.Steps[i])
		m.Advance(at)
		p.resume(m)
	}
	return p.Available(q)
}

// until plays what happens up to a time.
func (p *Player) until(at int64) {
	for p.events.Len() > 0 && p.events.First().at <= at {
		e := p.events.Pop()
		p.now = e.at
		e.happen()
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
	p.stats.shadow(v.step())
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
		k := p.kindOf(s.Rule)
		m = &limiter{machine.New[*visit](machine.Copy(k.account), k.terms), machine.Never}
		p.limiters[s.ID] = m
	}
	return m
}

// kindOf returns what the limiters of a rule begin with for this player.
func (p *Player) kindOf(r *Rule) kind {
	k, ok := p.kinds[r]
	if !ok {
		var err error
		if k, err = kindOf(p.limit(r.Limit)); err != nil {
			k = r.kind // so large that it cannot be doubled
		}
		k = k.placed(p.Zero)
		p.kinds[r] = k
	}
	return k
}

func (p *Player) pass(v *visit, m *limiter) {
	p.stats.pass(v.step())
	v.grants = append(v.grants, grant{m, m.grant(p.now, v.step().Rule.Cost)})
}

func (p *Player) wait(v *visit, m *limiter) {
	v.queued = true
	v.waits++
	v.waiter = machine.Waiter[*visit]{N: v.step().Rule.Cost, Value: v}
	v.waiter.SetFlow(v.step().flow())
	m.Enqueue(p.now, &v.waiter)
	p.stats.queue(p.now, v.step())
	wait := v.waits
	p.schedule(v.deadline, func() {
		if v.waits == wait && m.Cancel(p.now, &v.waiter) {
			p.stats.dequeue(p.now)
			p.reject(v)
			p.resume(m)
		}
	})
	p.resume(m) // it may be next
}

// resume continues with the requests whose wait in m has ended.
func (p *Player) resume(m *limiter) {
	for w := m.Decided(); w != nil; {
		next := w.Next()
		v := w.Value
		p.stats.dequeue(p.now)
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
		p.schedule(due, func() {
			if m.alarm == due {
				m.alarm = machine.Never
			}
			m.Advance(due)
			p.resume(m)
		})
	}
}

// grant passes a request to the server; when the server is done, the permits that it holds are returned.
func (p *Player) grant(v *visit) {
	p.stats.grant(p.now, &v.Request, v.queued)
	p.decided(v, true)
	if v.Took > 0 {
		p.schedule(p.now+v.Took, func() { p.end(v) })
	} else {
		p.end(v)
	}
}

func (p *Player) decided(v *visit, granted bool) {
	if p.Decided != nil {
		p.Decided(p.now, &v.Request, granted)
	}
}

// end returns, last first, the permits that were held and those that only failures cost.
func (p *Player) end(v *visit) {
	failed := v.Status >= 400 && v.Status < 500
	for i, g := range slices.Backward(v.grants) {
		if g.limiter != nil && (g.limiter.Terms().Held() || v.Steps[i].Rule.Failures && !failed) {
			p.undo(g)
		}
	}
	p.forget(v)
}

// reject rejects a request at its current step, and returns its permits, last first.
func (p *Player) reject(v *visit) {
	p.stats.reject(p.now, &v.Request, v.step())
	p.decided(v, false)
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

// event is something that happens at a given time.
type event struct {
	at     int64
	number int // events at one time happen in the order in which they were scheduled
	happen func()
}

// schedule adds an event, unless its time never comes.
func (p *Player) schedule(at int64, happen func()) {
	if at != machine.Never {
		p.scheduled++
		p.events.Push(event{at, p.scheduled, happen})
	}
}
