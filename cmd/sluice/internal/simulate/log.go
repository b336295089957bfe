package simulate

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// log is one log.
type log struct {
	*accesslog.Log

	name  string // "-" is stdin
	times engine.Times
	err   error // why it ended early
}

// requests yields the requests of the log, from its file.
func (l *log) requests(stdin io.Reader, p *engine.Plan) iter.Seq[engine.Request] {
	return func(yield func(engine.Request) bool) {
		file := stdin
		if l.name == "-" {
			l.name = "stdin"
		} else {
			f, err := os.Open(l.name)
			if err != nil {
				l.err = err
				return
			}
			defer func() { _ = f.Close() }()
			file = f
		}
		for q := range p.Read(l.Log, file, &l.times) {
			if !yield(q) {
				return
			}
		}
		if err := l.Err(); err != nil {
			l.err = fmt.Errorf("%s: %w", l.name, err)
		}
	}
}

// merge yields the requests of several logs in the order of their times, until all logs have ended, or one has failed.
func merge(logs []iter.Seq[engine.Request], failed func() bool) iter.Seq[engine.Request] {
	if len(logs) == 1 {
		return logs[0]
	}
	return func(yield func(engine.Request) bool) {
		heads := engine.NewHeap(func(a, b *head) bool {
			return cmp.Or(cmp.Compare(a.first.At, b.first.At), a.index-b.index) < 0
		})
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
				heads.Fix()
			} else {
				heads.Pop()
			}
		}
	}
}

// head is a log with its first request that is not yet merged.
type head struct {
	index int
	first engine.Request
	next  func() (engine.Request, bool)
}
