package engine

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Spread yields the requests, with the coarse ones of each second spread evenly over it. In a log with whole seconds they would
// otherwise all come together. moved counts those that get another time.
func Spread(requests iter.Seq[Request], moved *int) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		second := make([]Request, 0, 2048)
		for q := range requests {
			full := len(second) == maxOfSecond
			if len(second) > 0 && (full || q.At/int64(time.Second) != second[0].At/int64(time.Second)) {
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

// FromFirst yields the requests with times since the first request, and stores the time of that one in base. Times do not
// decrease: a request that is earlier than the one before it gets the time of that one.
func FromFirst(requests iter.Seq[Request], base *int64) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		first, newest := true, int64(0)
		for q := range requests {
			if first {
				*base, first = q.At, false
			}
			newest = max(q.At-*base, newest)
			q.At = newest
			if !yield(q) {
				return
			}
		}
	}
}

// maxOfSecond bounds the memory. Further requests of a second come at its end.
const maxOfSecond = 1 << 20

func yieldSecond(second []Request, moved *int, yield func(Request) bool) bool {
	coarse := int64(0)
	for i := range second {
		if second[i].Coarse {
			coarse++
		}
	}
	if coarse > 1 {
		n := int64(0)
		for i := range second {
			if q := &second[i]; q.Coarse {
				q.At += n * int64(time.Second) / coarse
				n++
			}
		}
		*moved += int(coarse) - 1
		if int(coarse) < len(second) {
			slices.SortStableFunc(second, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
		}
	}
	for _, q := range second {
		if !yield(q) {
			return false
		}
	}
	return true
}
