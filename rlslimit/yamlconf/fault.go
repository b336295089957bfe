package yamlconf

import (
	"errors"
	"fmt"
	"strings"
)

// Fault is one error in a file: where it is, and what is expected there.
type Fault struct { //nolint:errname // a fault is what people call it, and FaultError says it twice
	File         string
	Line, Column int // from 1; 0 means the file as a whole
	Text         string
}

// Error returns FILE:LINE:COLUMN: TEXT.
func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Text)
}

// NewFault returns a fault. It cuts a text that would fill a terminal, because a file may contain values of any length.
func NewFault(file string, line, column int, format string, args ...any) *Fault {
	const maxText = 400
	text := fmt.Sprintf(format, args...)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return &Fault{file, line, column, text}
}

const maxFaults = 100 // that are reported of one file

// faults collects the faults of a file. A value behind an alias may be read many times; its faults are reported once.
type faults struct {
	file  string
	quote func(string) string
	all   []*Fault
	seen  map[Fault]bool
}

func (f *faults) add(at Place, format string, args ...any) {
	fault := NewFault(f.file, at.Line, at.Column, format, args...)
	if f.seen[*fault] {
		return
	}
	if f.seen == nil {
		f.seen = make(map[Fault]bool)
	}
	f.seen[*fault] = true
	f.all = append(f.all, fault)
}

// err returns the faults in the order in which they were found, or nil.
func (f *faults) err() error {
	var errs []error
	for i, fault := range f.all {
		if i == maxFaults {
			errs = append(errs, &Fault{File: f.file, Text: fmt.Sprintf("and %d more errors", len(f.all)-i)})
			break
		}
		errs = append(errs, fault)
	}
	return errors.Join(errs...)
}
