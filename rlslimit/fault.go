package rlslimit

import (
	"fmt"
	"strings"
)

// Fault is something that is wrong with a file: where it is, and what was expected there. Load and Parse
// return all faults, joined; [errors.AsType] finds the first.
type Fault struct { //nolint:errname // a fault is what people call it, and FaultError says it twice
	File         string
	Line, Column int // from 1; 0: the file as a whole
	Text         string
}

// Error returns FILE:LINE:COLUMN: TEXT.
func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Text)
}

const maxText = 400

// newFault returns a fault whose text is not longer than a few lines of a terminal, whatever the file says.
func newFault(file string, line, column int, format string, args ...any) *Fault {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return &Fault{file, line, column, text}
}
