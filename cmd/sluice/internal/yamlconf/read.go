package yamlconf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Place is a place in a file. Lines and columns count from 1.
type Place struct{ Line, Column int }

// Fault is one error in a file: its place, and what is expected there.
type Fault struct { //nolint:errname // FaultError would say it twice
	File string
	Place
	Text string
}

// Error returns FILE:LINE:COLUMN: TEXT, or FILE: TEXT for an error of the file as a whole.
func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Text)
}

// NewFault returns a fault. It cuts a text that would fill a terminal, because a file may contain values of any length.
func NewFault(file string, at Place, format string, args ...any) *Fault {
	const maxText = 400
	text := fmt.Sprintf(format, args...)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return &Fault{file, at, text}
}

// Join is [errors.Join] for the errors of one file: those with a place in order, then those without one.
func Join(errs ...error) error {
	var all []error
	for _, err := range errs {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			all = append(all, joined.Unwrap()...)
		} else if err != nil {
			all = append(all, err)
		}
	}
	slices.SortStableFunc(all, func(a, b error) int {
		x, y := placeOf(a), placeOf(b)
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
	return errors.Join(all...)
}

func placeOf(err error) Place {
	if f, ok := errors.AsType[*Fault](err); ok && f.Line > 0 {
		return f.Place
	}
	return Place{math.MaxInt, 0}
}

// file is what all nodes of a file share.
type file struct {
	name   string
	faults []error
	seen   map[Fault]bool // a value behind an alias may be read many times
}

func (f *file) fault(at Place, format string, args ...any) {
	if fault := NewFault(f.name, at, format, args...); !f.seen[*fault] {
		f.seen[*fault] = true
		f.faults = append(f.faults, fault)
	}
}

// err returns the faults in the order in which they were found, or nil.
func (f *file) err() error {
	const maxFaults = 100
	if n := len(f.faults) - maxFaults; n > 0 {
		f.faults = append(f.faults[:maxFaults], NewFault(f.name, Place{}, "and %d more errors", n))
	}
	return errors.Join(f.faults...)
}

// Read parses the text of a file and calls read with the file's value, which is null if the file is empty. It returns
// all faults, joined in the order in which they were found, each a [*Fault]. It does not call read if the text is not YAML.
func Read(name string, text []byte, read func(root Node)) error {
	f := &file{name: name, seen: make(map[Fault]bool)}
	documents, err := parse(text)
	if err != nil {
		at := placeInText(err, text)
		f.fault(at, "error loading config file: %s", messageOf(err, lineOf(text, at)))
		return f.err()
	}
	if second := documents[1]; second.Kind != 0 {
		f.fault(placeOfNode(&second), "a second document, of which nothing would be read: put it in a file of its own")
	}
	root := &documents[0]
	if root.Kind == yaml.DocumentNode {
		root = root.Content[0]
	}
	m := &measure{file: f, anchors: make(map[*yaml.Node]size)}
	if _, ok := m.of(root, 0); ok {
		read(f.node(root))
	}
	return f.err()
}

// parse returns the first two documents of a text.
func parse(text []byte) (documents [2]yaml.Node, err error) {
	defer func() {
		if v := recover(); v != nil { // a panic of the parser
			err = fmt.Errorf("the text is not YAML: %v", v)
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	for i := range documents {
		if err == nil {
			err = loader.Load(&documents[i])
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return documents, err
}

// placeInText returns the place of the parser's error. If the text ends too early, that is where the unfinished part starts, or
// else the end of the text.
func placeInText(err error, text []byte) Place {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return Place{1, 1}
	}
	end := len(bytes.TrimRight(text, " \r\n"))
	last := placeOfByte(text, max(end-1, 0))
	switch {
	case e.Mark.Line == 0: // of a byte that no text has, the parser knows the offset only
		return placeOfByte(text, min(e.Mark.Index, len(text)))
	case e.Mark.Line <= last.Line:
		return Place{e.Mark.Line, e.Mark.Column}
	case e.ContextMark.Line > 0 && e.ContextMark.Line <= last.Line:
		return Place{e.ContextMark.Line, e.ContextMark.Column}
	}
	return last
}

func placeOfByte(text []byte, offset int) Place {
	before := text[:offset]
	line := bytes.LastIndexByte(before, '\n') + 1
	return Place{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[line:]) + 1}
}

// lineOf returns the line of a place.
func lineOf(text []byte, at Place) []byte {
	for range at.Line - 1 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return line
}

// messageOf returns the parser's message, with the part that it was parsing. For a tab in the indentation of the line, the parser has
// several messages, which do not say what to do.
func messageOf(err error, line []byte) string {
	indentation := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	e, ok := errors.AsType[*yaml.LoadError](err)
	switch {
	case !ok:
		return err.Error()
	case bytes.ContainsRune(indentation, '\t') && (strings.Contains(e.Message, "tab") || strings.Contains(e.Message, "cannot start any token")):
		return "the line is indented with a tab, which YAML does not allow; use spaces"
	case e.ContextMsg == "":
		return e.Message
	}
	return e.Message + " " + e.ContextMsg
}
