package main

import (
	"io"

	"github.com/sluice-go/sluice/examples/internal/program"
)

// progress is a status line that is overwritten on a terminal. Elsewhere it prints nothing.
type progress struct{ out io.Writer }

func newProgress(out io.Writer) *progress {
	if !program.IsTerminal(out) {
		return &progress{}
	}
	return &progress{out}
}

func (p *progress) show(format string, args ...any) {
	if p.out != nil {
		say(p.out, "\r\x1b[K"+format, args...)
	}
}

// clear removes the status line so that other output can follow.
func (p *progress) clear() {
	if p.out != nil {
		say(p.out, "\r\x1b[K")
	}
}
