package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// lines reads lines of any length.
type lines struct {
	r   *bufio.Reader
	end byte // of a line
}

// newLines returns the lines of a text, without a byte order mark.
func newLines(r io.Reader, end byte) lines {
	b := bufio.NewReaderSize(r, 64<<10)
	if start, _ := b.Peek(1); len(start) == 1 && start[0] == 0xef { // Peek(3) would wait for more of a line of one byte
		if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
			_, _ = b.Discard(len(mark))
		}
	}
	return lines{b, end}
}

// next returns the next line without its end. The last line may lack its end. After it, next returns io.EOF.
func (l lines) next() (string, error) {
	line, err := l.r.ReadString(l.end)
	switch {
	case err == nil:
		line = line[:len(line)-1]
	case !errors.Is(err, io.EOF):
		return "", fmt.Errorf("reading the input: %w", err)
	case line == "":
		return "", io.EOF
	}
	if l.end == '\n' {
		line = strings.TrimSuffix(line, "\r") // as on Windows
	}
	return line, nil
}

// all yields the remaining lines. It ends after an error.
func (l lines) all(yield func(string, error) bool) {
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) || !yield(line, err) || err != nil {
			return
		}
	}
}
