// Package fair decides which of many waiting requests is served next: those of the highest
// priority, and among these flows get equal shares, by weight. It is start-time fair queuing
// (Goyal, Vin and Cheng, 1996) under strict priorities. It is arithmetic and order alone,
// without a lock or a clock:
//
//	var q fair.Queue[*call]
//	q.Push(&fair.Item[*call]{N: 3, Value: c}, fair.Flow{Key: "tenant 7"})
//	next := q.Next() // whose turn it is, if it is not nil
//	q.Take(next)     // it is served, and its flow charged for 3 permits
//	q.Remove(item)   // it leaves, and no flow is charged
//
// The virtual time of a priority is the start tag of the request that it served last. A flow's
// tag grows by permits/weight whenever a request of the flow is served; a flow that starts to
// wait starts at the larger of its own tag and the virtual time. The flow with the least tag is
// next.
//
// Push, Take and Remove take time logarithmic in the number of waiting flows. A Queue is not
// safe for concurrent use.
package fair

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-go/sluice/internal/heap"
)

// Flow is on whose behalf a request waits. Requests of equal Key and Priority are one flow; each
// request is charged by its own Weight. See [Flow.InRange].
type Flow struct {
	Key      string
	Weight   int
	Priority int
}

// The ranges of a Flow.
const (
	MaxWeight   = 1 << 20
	MaxPriority = 100
	MinPriority = -MaxPriority
)

// InRange returns f with its Weight and Priority moved to the nearest value in range. A Weight of
// 0 stays; it counts as 1.
func (f Flow) InRange() Flow {
	if f.Weight != 0 {
		f.Weight = min(max(f.Weight, 1), MaxWeight)
	}
	f.Priority = min(max(f.Priority, MinPriority), MaxPriority)
	return f
}

// Queue is the requests that wait. The zero Queue is empty.
type Queue[V any] struct {
	len      int
	levels   []*level[V] // those with waiters, the highest priority first
	arrivals uint64
	spare    *level[V] // an empty level for reuse, or nil

	// What Evictions returned, and its candidates; kept for their memory.
	evicted    []*Item[V]
	candidates heap.Heap[candidate[V], byRest[V]]
}

// Room is memory for the first flows and priorities of a Queue, so that they allocate nothing.
type Room[V any] struct {
	level  level[V]
	levels [2]*level[V]
}

// Use gives an empty queue the memory r, which no other queue may use.
func (q *Queue[V]) Use(r *Room[V]) { q.levels, q.spare = r.levels[:0], &r.level }

// Item is a request that waits. It may be pushed again when it has been taken or removed.
type Item[V any] struct {
	N     int  // permits; at least 0
	Stays bool // Evictions does not choose it
	Value V    // the caller's

	flow         *flow[V] // nil means that it is in no queue
	cost         tag
	arrival      uint64
	prev, next   *Item[V] // neighbors in its flow
	older, newer *Item[V] // neighbors in its flow among those that may be evicted
}

// Waits reports whether the request is in a queue.
func (it *Item[V]) Waits() bool { return it.flow != nil }

// few is how many flows a level has memory for: a first wait allocates none.
const few = 4

// level is the flows of one priority.
type level[V any] struct {
	priority  int
	virtual   tag
	waiting   heap.Heap[*flow[V], byStart[V]] // flows with waiters, the one to be served first
	evictable tag                             // the permits of all requests that may be evicted, in 1
	loads     heap.Heap[*flow[V], byLoad[V]]  // flows with requests that may be evicted, the one with the most such permits per weight first
	idle      heap.Heap[*flow[V], byTag[V]]   // flows without waiters whose tag the virtual time has not reached

	flows  [few]flow[V]        // zero flows are not in use
	others map[string]*flow[V] // flows for which there was no room in flows
	room   [3][few]*flow[V]    // the first memory of the heaps
}

// flow is the state of a flow that has waiters, or whose tag is above its level's virtual time.
type flow[V any] struct {
	level       *level[V]
	key         string
	start       tag
	first, last *Item[V]
	newest      *Item[V] // newest item that may be evicted
	permits     tag      // permits of its waiters, in 1
	evictable   tag      // permits of the waiters that may be evicted
	largest     int      // no request of it is for more permits
	weight      int      // nor of a larger weight
	load        tag      // the sum of permits/weight of the waiters that may be evicted
	inOrder     int      // its place in waiting or idle: an idle flow does not wait
	inLoads     int      // its place in loads
}

// Empty reports whether no request waits.
func (q *Queue[V]) Empty() bool { return len(q.levels) == 0 }

// Len returns how many requests wait.
func (q *Queue[V]) Len() int { return q.len }

// Push appends a request of flow f, which may be out of range, and which may be in no queue.
func (q *Queue[V]) Push(it *Item[V], f Flow) {
	f = f.InRange()
	fl := q.level(f.Priority).flow(f.Key)
	q.len++
	q.arrivals++
	it.flow, it.cost, it.arrival = fl, cost(it.N, f.Weight), q.arrivals
	it.prev, it.next = fl.last, nil
	fl.last = it
	fl.permits = fl.permits.plus(tag{lo: uint64(it.N)})
	fl.largest, fl.weight = max(fl.largest, it.N), max(fl.weight, f.Weight, 1)
	if it.prev == nil {
		fl.first = it
		fl.level.waiting.Push(fl)
	} else {
		it.prev.next = it
	}
	if !it.Stays {
		fl.add(it)
	}
}

// add adds a request that may be evicted.
func (fl *flow[V]) add(it *Item[V]) {
	fl.load = fl.load.plus(it.cost)
	fl.evictable = fl.evictable.plus(tag{lo: uint64(it.N)})
	fl.level.evictable = fl.level.evictable.plus(tag{lo: uint64(it.N)})
	it.older, it.newer = fl.newest, nil
	fl.newest = it
	if it.older == nil {
		fl.level.loads.Push(fl)
		return
	}
	it.older.newer = it
	fl.level.loads.Fix(fl.inLoads)
}

// drop takes out a request that may be evicted.
func (fl *flow[V]) drop(it *Item[V]) {
	fl.load = fl.load.minus(it.cost)
	fl.evictable = fl.evictable.minus(tag{lo: uint64(it.N)})
	fl.level.evictable = fl.level.evictable.minus(tag{lo: uint64(it.N)})
	if it.newer == nil {
		fl.newest = it.older
	} else {
		it.newer.older = it.older
	}
	if it.older != nil {
		it.older.newer = it.newer
	}
	it.older, it.newer = nil, nil
	if fl.newest == nil {
		fl.level.loads.Remove(fl.inLoads)
	} else {
		fl.level.loads.Fix(fl.inLoads)
	}
}

// Next returns the request that is served next, or nil if the queue is empty.
func (q *Queue[V]) Next() *Item[V] {
	if q.Empty() {
		return nil
	}
	return q.levels[0].waiting.First().first
}

// Take takes out the request that is served now, which Next returned, and charges its flow.
func (q *Queue[V]) Take(it *Item[V]) {
	l := it.flow.level
	l.virtual = it.flow.start
	it.flow.start = l.virtual.plus(it.cost)
	q.Remove(it)
	for l.idle.Len() > 0 && !l.virtual.less(l.idle.First().start) {
		l.forget(l.idle.Pop())
	}
}

// Remove takes out a request that is not served. It does nothing if it is in no queue.
func (q *Queue[V]) Remove(it *Item[V]) {
	fl := it.flow
	if fl == nil {
		return
	}
	l, wasFirst := fl.level, it == fl.first
	if wasFirst {
		fl.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it == fl.last {
		fl.last = it.prev
	} else {
		it.next.prev = it.prev
	}
	q.len--
	fl.permits = fl.permits.minus(tag{lo: uint64(it.N)})
	if !it.Stays {
		fl.drop(it)
	}
	it.flow, it.prev, it.next = nil, nil, nil
	if fl.first == nil {
		q.leave(l, fl)
	} else if wasFirst {
		l.waiting.Fix(fl.inOrder)
	}
}

// leave takes out a flow whose last waiter has left.
func (q *Queue[V]) leave(l *level[V], fl *flow[V]) {
	l.waiting.Remove(fl.inOrder)
	switch {
	case l.waiting.Len() == 0: // its tags are forgotten
		i, _ := q.find(l.priority)
		q.levels = slices.Delete(q.levels, i, i+1)
		*l = level[V]{}
		q.spare = l
	case l.virtual.less(fl.start):
		l.idle.Push(fl)
	default:
		l.forget(fl)
	}
}

// Discard removes the requests whose values satisfy discards. No flow is charged.
func (q *Queue[V]) Discard(discards func(V) bool) {
	var items []*Item[V]
	for _, l := range q.levels {
		for i := range l.waiting.Len() {
			for it := l.waiting.At(i).first; it != nil; it = it.next {
				if discards(it.Value) {
					items = append(items, it)
				}
			}
		}
	}
	for _, it := range items {
		q.Remove(it)
	}
}

// Waiting returns the permits that the waiters of a flow wait for, at most math.MaxInt.
func (q *Queue[V]) Waiting(f Flow) int {
	if fl := q.lookup(f.InRange()); fl != nil {
		if fl.permits.hi > 0 || fl.permits.lo > math.MaxInt {
			return math.MaxInt
		}
		return int(fl.permits.lo)
	}
	return 0
}

// Evictions returns requests of at least excess permits in all that have to leave to make room
// for a newcomer of n permits and flow f; the caller removes them. One after the other, it is the
// newest of the flow with the most waiting permits per weight, at a tie of the one with the newest
// request, of the lowest priority that waits. If that is the newcomer's own flow, the newcomer
// counted, also at a tie, or if only higher priorities are left, no request leaves, and Evictions
// reports false. The slice is good until the next call.
//
// Evictions changes no flow, because the caller may still reject the newcomer.
func (q *Queue[V]) Evictions(f Flow, n, excess int) (evicted []*Item[V], ok bool) {
	f = f.InRange()
	own, mine := q.lookup(f), cost(n, f.Weight)
	if own != nil {
		mine = mine.plus(own.load)
	}
	q.evicted = q.evicted[:0]
	if !q.mayEvict(f.Priority, mine, excess) {
		return nil, false
	}
	for i := len(q.levels) - 1; i >= 0 && excess > 0 && q.levels[i].priority <= f.Priority; i-- {
		enough := tag{}
		if q.levels[i].priority == f.Priority {
			enough = mine
		}
		excess = q.evict(&q.levels[i].loads, enough, excess)
	}
	return q.evicted, excess <= 0
}

// candidate is a flow whose newest request may be the next to be evicted.
type candidate[V any] struct {
	load tag      // the total of the requests that are not evicted yet
	next *Item[V] // the newest of them
	at   int      // the flow's place in loads; below 0 once the two flows behind it are candidates
}

// byRest is the order of candidates.
type byRest[V any] struct{ heap.Unplaced[candidate[V]] }

func (byRest[V]) Before(a, b candidate[V]) bool {
	return b.load.less(a.load) || a.load == b.load && b.next.arrival < a.next.arrival
}

// evict adds requests to q.evicted until excess permits are evicted, or no flow has a larger load than enough. It
// returns the excess that is left. A flow becomes a candidate once the one before it in the heap of loads has given up a
// request: until then that one has at least as much.
func (q *Queue[V]) evict(loads *heap.Heap[*flow[V], byLoad[V]], enough tag, excess int) int {
	c := &q.candidates
	add := func(i int) {
		if i < loads.Len() {
			c.Push(candidate[V]{loads.At(i).load, loads.At(i).newest, i})
		}
	}
	for add(0); excess > 0 && c.Len() > 0 && enough.less(c.First().load); {
		k := c.Pop()
		q.evicted = append(q.evicted, k.next)
		excess -= k.next.N
		if k.at >= 0 {
			add(2*k.at + 1)
			add(2*k.at + 2)
		}
		if k.next.older != nil {
			c.Push(candidate[V]{k.load.minus(k.next.cost), k.next.older, -1})
		}
	}
	for c.Len() > 0 {
		c.Remove(c.Len() - 1)
	}
	return excess
}

// mayEvict returns false if it is certain that fewer permits than excess can be evicted for a newcomer of that
// priority and load, its own flow's included. Otherwise Evictions would try that request by request, for nothing.
func (q *Queue[V]) mayEvict(priority int, mine tag, excess int) bool {
	sum, want := tag{}, tag{lo: uint64(excess)}
	for _, l := range slices.Backward(q.levels) {
		switch {
		case l.priority < priority:
			sum = sum.plus(l.evictable)
		case l.priority == priority:
			sum = above(&l.loads, 0, mine, sum, want)
		}
	}
	return !sum.less(want)
}

// above adds to sum the permits that the flows from the i-th on have above a load, at least, until the sum is
// enough.
func above[V any](h *heap.Heap[*flow[V], byLoad[V]], i int, load, sum, enough tag) tag {
	if i >= h.Len() || !load.less(h.At(i).load) || !sum.less(enough) {
		return sum
	}
	fl := h.At(i)
	permits := fl.evictable
	// A flow gives up requests until its load is no more than that, and the last one may be large.
	if d := fl.load.minus(load); d.hi < unit {
		perWeight, _ := bits.Div64(d.hi, d.lo, unit)
		hi, lo := bits.Mul64(perWeight+1, uint64(fl.weight))
		if most := (tag{hi, lo}).plus(tag{lo: uint64(fl.largest)}); most.less(permits) {
			permits = most
		}
	}
	sum = above(h, 2*i+1, load, sum.plus(permits), enough)
	return above(h, 2*i+2, load, sum, enough)
}

// find returns where the level of a priority is, or should be.
func (q *Queue[V]) find(priority int) (i int, ok bool) {
	return slices.BinarySearchFunc(q.levels, priority, func(l *level[V], priority int) int { return priority - l.priority })
}

// lookup returns a flow that is known, or nil.
func (q *Queue[V]) lookup(f Flow) *flow[V] {
	if i, ok := q.find(f.Priority); ok {
		return q.levels[i].lookup(f.Key)
	}
	return nil
}

// level returns the level of a priority.
func (q *Queue[V]) level(priority int) *level[V] {
	i, ok := q.find(priority)
	if !ok {
		l := q.spare
		if l == nil {
			l = new(level[V])
		}
		q.spare = nil
		l.priority = priority
		l.waiting.Use(l.room[0][:])
		l.loads.Use(l.room[1][:])
		l.idle.Use(l.room[2][:])
		q.levels = slices.Insert(q.levels, i, l)
	}
	return q.levels[i]
}

// byStart is the order of service.
type byStart[V any] struct{}

func (byStart[V]) Placed(fl *flow[V], i int) { fl.inOrder = i }
func (byStart[V]) Before(a, b *flow[V]) bool {
	return a.start.less(b.start) || a.start == b.start && a.first.arrival < b.first.arrival
}

// byLoad is the order of evictions.
type byLoad[V any] struct{}

func (byLoad[V]) Placed(fl *flow[V], i int) { fl.inLoads = i }
func (byLoad[V]) Before(a, b *flow[V]) bool {
	return b.load.less(a.load) || a.load == b.load && b.newest.arrival < a.newest.arrival
}

// byTag is the order in which idle flows are forgotten.
type byTag[V any] struct{}

func (byTag[V]) Placed(fl *flow[V], i int) { fl.inOrder = i }
func (byTag[V]) Before(a, b *flow[V]) bool { return a.start.less(b.start) }

// flow returns the flow of a key, out of the heap of idle flows.
func (l *level[V]) flow(key string) *flow[V] {
	fl := l.lookup(key)
	switch {
	case fl == nil:
		if fl = l.slot(nil, ""); fl == nil {
			fl = new(flow[V])
			if l.others == nil {
				l.others = map[string]*flow[V]{}
			}
			l.others[key] = fl
		}
		*fl = flow[V]{level: l, key: key, start: l.virtual}
	case fl.first == nil:
		l.idle.Remove(fl.inOrder)
	}
	return fl
}

// lookup returns the flow of a key, or nil.
func (l *level[V]) lookup(key string) *flow[V] {
	if fl := l.slot(l, key); fl != nil {
		return fl
	}
	return l.others[key]
}

// slot returns the one of l.flows that has these fields, or nil.
func (l *level[V]) slot(of *level[V], key string) *flow[V] {
	for i := range l.flows {
		if fl := &l.flows[i]; fl.level == of && fl.key == key {
			return fl
		}
	}
	return nil
}

// forget drops a flow that is in no heap.
func (l *level[V]) forget(fl *flow[V]) {
	delete(l.others, fl.key)
	*fl = flow[V]{}
}
