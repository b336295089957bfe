package engine

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/sluice-go/sluice/internal/heap"
)

// maxHeld is how many requests InOrder holds.
const maxHeld = 1 << 14

// InOrder yields the requests of a log in the order in which they came, because many servers log a request when its response
// has ended. If more than maxHeld requests came while a request was served, that request counts at the time of the one
// before it.
func InOrder(requests iter.Seq[Request], times *Times) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		var held heap.Heap[numbered, byTimeAndPlace]
		count, room, newest := 0, 0, int64(0)
		next := func() bool {
			q := held.Pop().Request
			newest = max(newest, q.At)
			q.At = newest
			return yield(q)
		}
		for q := range corrected(requests, times) {
			if q.Took > 0 {
				room = maxHeld
			}
			count++
			held.Push(numbered{q, count})
			if held.Len() > room && !next() {
				return
			}
		}
		for held.Len() > 0 && next() {
		}
	}
}

// Merge yields the requests of several logs in the order of their times, until all logs have ended, or one has failed.
func Merge(logs []iter.Seq[Request], failed func() bool) iter.Seq[Request] {
	if len(logs) == 1 {
		return logs[0]
	}
	return func(yield func(Request) bool) {
		var heads heap.Heap[*head, byFirst]
		for i, requests := range logs {
			next, stop := iter.Pull(requests)
			defer stop() //nolint:gocritic,revive // when all are merged
			if first, ok := next(); ok {
				heads.Push(&head{i, first, next})
			}
		}
		for heads.Len() > 0 && !failed() {
			h := heads.First()
			if !yield(h.first) {
				return
			}
			var ok bool
			if h.first, ok = h.next(); ok {
				heads.Fix(0)
			} else {
				heads.Pop()
			}
		}
	}
}

// numbered is a request with its place in a log.
type numbered struct {
	Request
	nth int
}

type byTimeAndPlace struct{ heap.Unplaced[numbered] }

func (byTimeAndPlace) Before(a, b numbered) bool {
	return cmp.Or(cmp.Compare(a.At, b.At), a.nth-b.nth) < 0
}

// head is a log with its first request that is not yet merged.
type head struct {
	index int
	first Request
	next  func() (Request, bool)
}

type byFirst struct{ heap.Unplaced[*head] }

func (byFirst) Before(a, b *head) bool {
	return cmp.Or(cmp.Compare(a.first.At, b.first.At), a.index-b.index) < 0
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
		unit := time.Millisecond
		if t.Latest > time.Minute {
			unit = time.Second
		}
		notes = append(notes, fmt.Sprintf("late lines: %d, by up to %v; each counts at the newest time before it", t.Late, t.Latest.Round(unit)))
	}
	if t.Late > requests/2 {
		notes = append(notes, "most lines are late: sort the log by its times, or the numbers say little")
	}
	if t.Ahead > 0 {
		notes = append(notes, fmt.Sprintf("times far ahead of those around them: %d; each counts at the newest time before it", t.Ahead))
	}
	if t.Back > 0 {
		notes = append(notes, fmt.Sprintf("times at which the log goes back in time: %d; what follows counts from the newest time on", t.Back))
	}
	return notes
}

const (
	jump      = int64(time.Minute) // a larger step is a jump
	witnesses = 5                  // requests after a jump that show whether the log continues there
)

// corrected yields the requests so that a single wrong time does not affect others. A request whose time jumps is compared with
// those after it: the log continues there, or its time is a stray.
func corrected(requests iter.Seq[Request], times *Times) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		t := timeline{Times: times}
		window := make([]Request, 0, witnesses+1)
		for q := range requests {
			if len(window) > witnesses {
				if !yield(t.place(window)) {
					return
				}
				window = slices.Delete(window, 0, 1)
			}
			window = append(window, q)
		}
		for i := range window {
			if !yield(t.place(window[i:])) {
				return
			}
		}
	}
}

// timeline is the times of a log so far.
type timeline struct {
	*Times

	started bool
	newest  int64
	offset  int64 // added to the log's times: its clock was set back
}

// place returns the first request of a window at its right time. A late one counts at the newest time so far. A request is not late
// if it came later by at most its duration.
func (t *timeline) place(window []Request) Request {
	q := window[0]
	q.At += t.offset
	if !t.started {
		t.newest, t.started = q.At, true
	}
	switch late := t.newest - q.At; {
	case late < -jump && !t.continuesAt(q.At, window[1:], true):
		t.Ahead++
		q.At = t.newest
	case late > q.Took+jump && t.continuesAt(q.At, window[1:], false):
		t.Back++
		t.offset += late
		q.At = t.newest
	case late > q.Took:
		t.Late++
		t.Latest = max(t.Latest, time.Duration(late))
		q.At = t.newest
	}
	t.newest = max(t.newest, q.At)
	return q
}

// continuesAt reports whether most of the next requests are nearer to a time than to the newest. In doubt the log ends there, or not.
func (t *timeline) continuesAt(at int64, next []Request, doubt bool) bool {
	votes := 0
	for _, q := range next {
		if q.At += t.offset; max(q.At-at, at-q.At) <= max(q.At-t.newest, t.newest-q.At) {
			votes++
		} else {
			votes--
		}
	}
	return votes > 0 || votes == 0 && doubt
}
