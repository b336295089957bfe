package main

import "os"

// progress is a line that is written over and over, on a terminal; elsewhere it is silent.
type progress struct{ out *os.File }

func newProgress(out *os.File) *progress {
	if info, err := out.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
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
