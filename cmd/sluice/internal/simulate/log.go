package simulate

import (
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
