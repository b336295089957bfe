package engine

import (
	"cmp"
	"fmt"
	"time"
)

// maxHeld is how many requests an Order holds.
const maxHeld = 1 << 14

// Order sorts the requests of a log by the time at which they came, because many servers log a request when its response
// has ended. If more than maxHeld requests came while a request was served, that request counts at the time of the one
// before it.
type Order struct {
	timeline

	each   func(Request) error
	heap   *Heap[numbered]
	count  int
	newest int64
	took   bool // requests have durations
}

type numbered struct {
	Request

	nth int
}

// NewOrder returns an Order that calls each with every request, in order. Add and End return the errors of each.
func NewOrder(each func(Request) error) *Order {
	o := &Order{each: each, heap: NewHeap(func(a, b numbered) bool { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.nth, b.nth)) < 0 })}
	o.timed = o.enter
	return o
}

// Add adds a request.
func (o *Order) Add(q Request) error { return o.add(q) }

// End passes on the requests that are still held. Call it after the last Add.
func (o *Order) End() error {
	if err := o.end(); err != nil {
		return err
	}
	for o.heap.Len() > 0 {
		if err := o.next(); err != nil {
			return err
		}
	}
	return nil
}

func (o *Order) enter(q Request) error {
	if o.took = o.took || q.Took > 0; !o.took {
		o.newest = q.At
		return o.each(q)
	}
	o.count++
	o.heap.Push(numbered{q, o.count})
	if o.heap.Len() <= maxHeld {
		return nil
	}
	return o.next()
}

func (o *Order) next() error {
	q := o.heap.Pop().Request
	o.newest = max(o.newest, q.At)
	q.At = o.newest
	return o.each(q)
}

// Times counts the times of a log that could not be taken as they are.
type Times struct {
	Late   int           // requests with an earlier time than a request before them; they count at the newest time
	Latest time.Duration // the maximum by which they were late
	Ahead  int           // requests whose time is far ahead of those around it; they also count at the newest time
	Back   int           // how often the clock of the log was set back; later requests count from the newest time on
}

// Add adds the times of another log.
func (t *Times) Add(u Times) {
	t.Late += u.Late
	t.Latest = max(t.Latest, u.Latest)
	t.Ahead += u.Ahead
	t.Back += u.Back
}

// Notes returns notes about the times of a log with so many requests.
func (t Times) Notes(requests int) (notes []string) {
	if t.Late > 0 {
		notes = append(notes, fmt.Sprintf("late lines: %d, by up to %v; each counts at the newest time before it", t.Late, round(t.Latest)))
	}
	if t.Late > requests/2 {
		notes = append(notes, "most lines are late: sort the log by its times, or the numbers say little")
	}
	if t.Ahead > 0 {
		notes = append(notes, fmt.Sprintf("times far from those around them: %d; each counts between the times of its neighbors", t.Ahead))
	}
	if t.Back > 0 {
		notes = append(notes, fmt.Sprintf("the log goes back in time: %s; what follows counts from the newest time on", Number(t.Back, "once", "times")))
	}
	return notes
}

func round(d time.Duration) time.Duration {
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

// Number returns a number and what it counts, such as "2 times", or "once".
func Number(n int, one, more string) string {
	switch {
	case n == 1 && one == "once":
		return one
	case n == 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// timeline corrects the times of a log, so that a single wrong time does not affect other requests. A request whose time
// jumps is held until the lines after it show whether the log continues at that time, or the time was a stray.
type timeline struct {
	Times

	timed   func(Request) error // takes requests with their right times
	started bool
	newest  int64
	offset  int64     // added to the log's times: its clock was set back
	held    []Request // the request whose time jumps, and those after it
	votes   int       // number of held requests that are near the jump, minus those near newest
}

const (
	jump     = time.Minute // a larger step is a jump
	decisive = 3           // votes
)

func (t *timeline) add(q Request) error {
	q.At += t.offset
	if len(t.held) == 0 {
		if !t.jumps(q) && t.started {
			return t.pass(q)
		}
		t.held, t.votes = append(t.held, q), 1
		return nil
	}
	if !t.started { // is the first time a stray?
		t.held = append(t.held, q)
		if len(t.held) > decisive {
			return t.start()
		}
		return nil
	}
	t.held = append(t.held, q)
	if t.nearJump(q) {
		t.votes++
	} else {
		t.votes--
	}
	if t.votes < decisive && t.votes > -decisive {
		return nil
	}
	return t.decide(t.votes > 0)
}

// jumps reports whether the time of a request is far from the newest. A long request may end after many requests that came
// later.
func (t *timeline) jumps(q Request) bool {
	return q.At-t.newest > int64(jump) || t.newest-(q.At+q.Took) > int64(jump)
}

func (t *timeline) nearJump(q Request) bool {
	return distance(q.At, t.held[0].At) <= distance(q.At, t.newest)
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// start starts the timeline at the first request, unless its time is a stray: far from the next times, which are near each
// other.
func (t *timeline) start() error {
	held := t.held
	t.held, t.started = nil, true
	if len(held) == 0 {
		return nil
	}
	t.newest = held[0].At
	if len(held) > decisive && distance(held[0].At, held[1].At) > int64(jump) && distance(held[1].At, held[2].At) < distance(held[0].At, held[1].At)/8 {
		t.newest = held[1].At
		held[0].At = t.newest
		t.Ahead++
	}
	for _, q := range held {
		q.At -= t.offset
		if err := t.add(q); err != nil {
			return err
		}
	}
	return nil
}

// decide passes the first held request: the log continues at its time, or its time is a stray. The others are added again.
func (t *timeline) decide(continues bool) error {
	first, rest, before := t.held[0], t.held[1:], t.offset
	t.held = nil
	switch {
	case continues && first.At < t.newest:
		t.offset += t.newest - first.At
		first.At = t.newest
		t.Back++
	case !continues && first.At > t.newest:
		first.At = t.between(rest)
		first.Coarse = first.Coarse && first.At == t.newest
		t.Ahead++
	}
	if err := t.pass(first); err != nil {
		return err
	}
	for _, q := range rest {
		q.At -= before
		if err := t.add(q); err != nil {
			return err
		}
	}
	return nil
}

// between returns the middle between newest and the time of the next request that is near it.
func (t *timeline) between(next []Request) int64 {
	for _, q := range next {
		if !t.jumps(q) && q.At > t.newest {
			return t.newest + (q.At-t.newest)/2
		}
	}
	return t.newest
}

// end passes the held requests at the end of the log.
func (t *timeline) end() error {
	if !t.started {
		if err := t.start(); err != nil {
			return err
		}
	}
	for len(t.held) > 0 {
		ahead := t.held[0].At > t.newest
		if err := t.decide(ahead && t.votes >= 0 || t.votes > 1); err != nil {
			return err
		}
	}
	return nil
}

// pass passes a request. A late request counts at the newest time so far. A request is not late if it came later by at most its
// duration, because many servers log a request when its response has ended, with the time at which the request came.
func (t *timeline) pass(q Request) error {
	switch late := t.newest - q.At; {
	case late <= 0:
		t.newest = q.At
	case late > q.Took:
		t.Late++
		t.Latest = max(t.Latest, time.Duration(late))
		q.At = t.newest
	}
	return t.timed(q)
}
