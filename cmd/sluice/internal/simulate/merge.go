package simulate

import (
	"cmp"
	"iter"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// merge yields the requests of several logs in the order of their times, until all logs have ended, or one has failed.
func merge(logs []*log, failed *error) iter.Seq[engine.Request] {
	return func(yield func(engine.Request) bool) {
		heads := engine.NewHeap(func(a, b *head) bool {
			return cmp.Or(cmp.Compare(a.requests[0].At, b.requests[0].At), a.index-b.index) < 0
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
	requests []engine.Request
}

// fill reads more of the log if that is needed, and reports whether there is a request.
func (h *head) fill() bool {
	if len(h.requests) == 0 {
		h.requests = <-h.log.out
	}
	return len(h.requests) > 0
}
