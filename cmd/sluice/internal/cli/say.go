package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Printer prints the lines of a command. It is safe for concurrent use.
type Printer struct {
	to    io.Writer
	name  string
	times atomic.Bool

	mu sync.Mutex // one line at a time
}

// NewPrinter returns a printer of the command of that name to w.
func NewPrinter(w io.Writer, command string) *Printer {
	return &Printer{to: w, name: "sluice " + command}
}

// SetTimes says whether later lines start with the time, as those of a server's log do.
func (p *Printer) SetTimes(on bool) { p.times.Store(on) }

// Say prints a line.
func (p *Printer) Say(format string, args ...any) {
	at := ""
	if p.times.Load() {
		at = time.Now().Format(time.DateTime) + " "
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.to, "%s%s: %s\n", at, p.name, fmt.Sprintf(format, args...))
}

// SayAll prints the lines of an error.
func SayAll(say func(format string, args ...any), err error) {
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		say("%s", line)
	}
}
