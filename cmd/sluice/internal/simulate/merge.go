package simulate

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/sluice-go/sluice/internal/heap"
)

// merge yields the requests of several logs in the order of their times, until all logs have ended, or one has failed.
func merge(logs []*log, failed *error) iter.Seq[request] {
	return func(yield func(request) bool) {
		heads := heap.New(func(a, b *head) bool {
			return cmp.Or(cmp.Compare(a.requests[0].at, b.requests[0].at), a.index-b.index) < 0
		})
		for i, l := range logs {
			if h := (&head{log: l, index: i}); h.fill() {
				heads.Push(h)
			} else if *failed = l.err; *failed != nil {
				return
			}
		}
		for heads.Len() > 0 {
			h := heads.First()
			if !yield(h.requests[0]) {
				return
			}
			h.requests = h.requests[1:]
			if h.fill() {
				heads.Fix()
				continue
			}
			heads.Pop()
			if *failed = h.log.err; *failed != nil {
				return
			}
		}
	}
}

// head is a log with what was read of it and not yet merged.
type head struct {
	log      *log
	index    int
	requests []request
}

// fill reads more of the log if that is needed, and reports whether there is a request.
func (h *head) fill() bool {
	if len(h.requests) == 0 {
		h.requests = <-h.log.out
	}
	return len(h.requests) > 0
}

// spread yields the requests with the coarse ones of each second evenly over it: a log that says no more than the second
// would have them all come at once. moved counts those that get another time.
func spread(requests iter.Seq[request], moved *int) iter.Seq[request] {
	return func(yield func(request) bool) {
		second := make([]request, 0, batchSize)
		for q := range requests {
			full := len(second) == mostOfSecond
			if len(second) > 0 && (full || q.at/int64(time.Second) != second[0].at/int64(time.Second)) {
				if !yieldSecond(second, moved, yield) {
					return
				}
				second = second[:0]
			}
			second = append(second, q)
		}
		yieldSecond(second, moved, yield)
	}
}

// mostOfSecond bounds the memory. What a second has more comes at its end.
const mostOfSecond = 1 << 20

func yieldSecond(second []request, moved *int, yield func(request) bool) bool {
	coarse := int64(0)
	for i := range second {
		if second[i].coarse {
			coarse++
		}
	}
	if coarse > 1 {
		n := int64(0)
		for i := range second {
			if q := &second[i]; q.coarse {
				q.at += n * int64(time.Second) / coarse
				n++
			}
		}
		*moved += int(coarse) - 1
		if int(coarse) < len(second) {
			slices.SortStableFunc(second, func(a, b request) int { return cmp.Compare(a.at, b.at) })
		}
	}
	for _, q := range second {
		if !yield(q) {
			return false
		}
	}
	return true
}
