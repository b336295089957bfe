package fair_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/testkit"
)

// request is one of the model's and the queue's.
type request struct {
	id   int
	n    int
	flow fair.Flow
	stay bool // it is not evicted
	item *fair.Item[*request]
}

// model is the rules, as they are written down: a list of all waiters in the order of arrival, and
// the tags of all flows since the priority was last without waiters. Tags are in 1/40 permit, in which
// those of the weights 1, 2, 4, 5, 8 and 10 are whole.
type model struct {
	waiting []*request
	virtual map[int]int
	tags    map[[2]any]int
}

const whole = 40

func newModel() *model { return &model{virtual: map[int]int{}, tags: map[[2]any]int{}} }

func share(r *request) int { return r.n * whole / max(r.flow.Weight, 1) }

func key(f fair.Flow) [2]any { return [2]any{f.Priority, f.Key} }

func (m *model) has(is func(r *request) bool) bool { return slices.ContainsFunc(m.waiting, is) }

func (m *model) push(r *request) {
	if !m.has(func(o *request) bool { return key(o.flow) == key(r.flow) }) {
		m.tags[key(r.flow)] = max(m.tags[key(r.flow)], m.virtual[r.flow.Priority])
	}
	m.waiting = append(m.waiting, r)
}

func (m *model) next() *request {
	if len(m.waiting) == 0 {
		return nil
	}
	first := func(a, b *request) int {
		return cmp.Or(b.flow.Priority-a.flow.Priority, m.tags[key(a.flow)]-m.tags[key(b.flow)], a.id-b.id)
	}
	return slices.MinFunc(m.waiting, first)
}

func (m *model) take(r *request) {
	m.virtual[r.flow.Priority] = m.tags[key(r.flow)]
	m.tags[key(r.flow)] += share(r)
	m.remove(r)
}

func (m *model) remove(r *request) {
	m.waiting = slices.DeleteFunc(m.waiting, func(o *request) bool { return o == r })
	p := r.flow.Priority
	if m.has(func(o *request) bool { return o.flow.Priority == p }) {
		return
	}
	delete(m.virtual, p)
	for k := range m.tags {
		if k[0] == p {
			delete(m.tags, k)
		}
	}
}

// evictions returns the ids of who has to leave; nil if the newcomer is rejected.
func (m *model) evictions(f fair.Flow, n, excess int) (ids []int) {
	left := slices.DeleteFunc(slices.Clone(m.waiting), func(r *request) bool { return r.stay })
	load := func(f fair.Flow) (sum int) {
		for _, r := range left {
			if key(r.flow) == key(f) {
				sum += share(r)
			}
		}
		return sum
	}
	newcomer := load(f) + share(&request{n: n, flow: f})
	for excess > 0 {
		if len(left) == 0 {
			return nil
		}
		lowest := slices.MinFunc(left, func(a, b *request) int { return a.flow.Priority - b.flow.Priority }).flow.Priority
		if lowest > f.Priority {
			return nil
		}
		victim := slices.MaxFunc(left, func(a, b *request) int {
			return cmp.Or(b.flow.Priority-a.flow.Priority, load(a.flow)-load(b.flow), a.id-b.id)
		})
		if lowest == f.Priority && newcomer >= load(victim.flow) {
			return nil
		}
		left = slices.DeleteFunc(left, func(r *request) bool { return r == victim })
		ids = append(ids, victim.id)
		excess -= victim.n
	}
	return ids
}

// pair is a model and a queue, which are told the same.
type pair struct {
	t *testing.T
	*model
	q   *fair.Queue[*request]
	ids int
}

func (p *pair) push(f fair.Flow, n int, stay bool) {
	p.ids++
	r := &request{id: p.ids, n: n, flow: f, stay: stay}
	r.item = &fair.Item[*request]{N: n, Stays: stay, Value: r}
	p.model.push(r)
	p.q.Push(r.item, f)
}

func (p *pair) take() {
	r := p.model.next()
	if r == nil {
		return
	}
	p.model.take(r)
	p.q.Take(p.q.Next())
}

func (p *pair) remove(r *request) {
	p.model.remove(r)
	p.q.Remove(r.item)
}

func (p *pair) discard(discards func(*request) bool) {
	for _, r := range slices.Clone(p.waiting) {
		if discards(r) {
			p.model.remove(r)
		}
	}
	p.q.Discard(discards)
}

func (p *pair) evict(f fair.Flow, n, excess int) {
	want := p.model.evictions(f, n, excess)
	items, ok := p.q.Evictions(f, n, excess)
	require.Equal(p.t, want != nil, ok)
	if !ok {
		return
	}
	got := make([]int, len(items))
	for i, it := range items {
		got[i] = it.Value.id
	}
	require.Equal(p.t, want, got)
	for _, it := range slices.Clone(items) {
		p.remove(it.Value)
	}
}

func (p *pair) check() {
	want, got := p.model.next(), p.q.Next()
	require.Equal(p.t, len(p.waiting), p.q.Len())
	if want == nil {
		require.Nil(p.t, got)
		require.True(p.t, p.q.Empty())
		return
	}
	if got == nil || got.Value != want {
		require.Equal(p.t, want, got.Value)
	}
}

// The queue serves, evicts and forgets as the rules say, in a million random operations.
func TestTheQueueFollowsItsRules(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	weights := []int{0, 1, 2, 4, 5, 8, 10}
	const ops = 1000
	for range testkit.Rounds(300) {
		p := &pair{t: t, model: newModel(), q: new(fair.Queue[*request])}
		keys, priorities, most, full, stays := 1+random.IntN(8), 1+random.IntN(3), 1+random.IntN(50), 1+random.IntN(40), 1+random.IntN(10)
		flow := func() fair.Flow {
			k := random.IntN(keys)
			w := weights[k%len(weights)]
			if random.IntN(10) == 0 {
				w = weights[random.IntN(len(weights))]
			}
			return fair.Flow{Key: string(rune('a' + k)), Weight: w, Priority: random.IntN(priorities) - 1}
		}
		for range ops {
			switch op := random.IntN(10); {
			case op < 5 && len(p.waiting) >= full:
				p.evict(flow(), 1+random.IntN(most), 1+random.IntN(most))
			case op < 5:
				p.push(flow(), 1+random.IntN(most), random.IntN(stays) == 0)
			case op < 8:
				p.take()
			case random.IntN(50) == 0:
				p.discard(func(r *request) bool { return r.id%3 == 0 })
			case op < 9 && len(p.waiting) > 0:
				p.remove(p.waiting[random.IntN(len(p.waiting))])
			default:
				f := flow()
				sum := 0
				for _, r := range p.waiting {
					if key(r.flow) == key(f) {
						sum += r.n
					}
				}
				require.Equal(t, sum, p.q.Waiting(f))
			}
			p.check()
		}
	}
}
