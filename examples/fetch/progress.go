package main

import (
	"io"

	"github.com/sluice-go/sluice/examples/internal/program"
)

// progress is a line that is written over and over, on a terminal; elsewhere it is silent.
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

// clear makes room for other output.
func (p *progress) clear() {
	if p.out != nil {
		say(p.out, "\r\x1b[K")
	}
}
