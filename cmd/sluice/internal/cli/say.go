package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Say returns a function that prints a line of a command to w. It may be called at any time.
func Say(w io.Writer, command string) func(format string, args ...any) {
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(w, "sluice "+command+": "+format+"\n", args...)
	}
}

// SayAll prints the lines of an error.
func SayAll(say func(format string, args ...any), err error) {
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		say("%s", line)
	}
}
