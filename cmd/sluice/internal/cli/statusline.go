package cli

import (
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// StatusLine is the last line on a terminal, which is redrawn in place. A nil StatusLine draws nothing. It is safe for concurrent
// use.
type StatusLine struct {
	f *os.File

	mu   sync.Mutex
	text string
	open bool // what was written above does not end with a newline
}

// NewStatusLine returns a status line on f, or nil if f is not a terminal.
func NewStatusLine(f *os.File) *StatusLine {
	if !IsTerminal(f) {
		return nil
	}
	return &StatusLine{f: f}
}

// defaultWidth is for a terminal that does not report its width.
const defaultWidth = 80

// Width returns how many characters fit into the line.
func (l *StatusLine) Width() int {
	if width, _, err := term.GetSize(int(l.f.Fd())); err == nil && width > 0 {
		return width - 1 // a terminal may start a new line after the last column
	}
	return defaultWidth - 1
}

// Show draws the line, cut off at the width of the terminal.
func (l *StatusLine) Show(text string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.Width(); utf8.RuneCountInString(text) > n {
		text = string([]rune(text)[:n])
	}
	l.drawLocked(text)
}

// Clear removes the line.
func (l *StatusLine) Clear() { l.Show("") }

// drawLocked replaces what is drawn by text.
func (l *StatusLine) drawLocked(text string) {
	if l.text == "" && text == "" {
		return
	}
	before := ""
	if l.open && text != "" {
		before, l.open = "\n", false
	}
	rest := strings.Repeat(" ", max(utf8.RuneCountInString(l.text)-utf8.RuneCountInString(text), 0))
	after := ""
	if text == "" {
		after = "\r"
	}
	l.text = text
	_, _ = l.f.WriteString(before + "\r" + text + rest + after)
}

// Above returns a writer to w that removes the status line before each write, and redraws it below what was written.
func (l *StatusLine) Above(w io.Writer) io.Writer {
	if l == nil {
		return w
	}
	return above{l, w}
}

type above struct {
	line *StatusLine
	w    io.Writer
}

func (a above) Write(b []byte) (int, error) {
	l := a.line
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text
	l.drawLocked("")
	n, err := a.w.Write(b)
	if l.open = n > 0 && b[n-1] != '\n'; !l.open {
		l.drawLocked(text)
	}
	return n, err
}

// Every calls f at an interval until stop is called, which waits for a call of f to end. A second call of stop does nothing.
func Every(d time.Duration, f func()) (stop func()) {
	ticker, end := time.NewTicker(d), make(chan struct{})
	var w sync.WaitGroup
	w.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-end:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(end)
		w.Wait()
	})
}

// Bar returns a bar of width characters, filled by a share from 0 to 1; "" if there is no room for one.
func Bar(width int, share float64) string {
	inner := width - len("[>]")
	if inner < 1 {
		return ""
	}
	full := int(min(max(share, 0), 1) * float64(inner))
	return "[" + strings.Repeat("=", full) + ">" + strings.Repeat("-", inner-full) + "]"
}
