package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// row is the input of one job.
type row struct {
	whole  []string // the values of {}: the line, or the arguments
	values []string // the values of {1}, {2} and so on
}

// rows yields the input of the jobs, one by one. It ends after an error.
type rows = iter.Seq2[row, error]

// inputs are the sources of the rows.
type inputs struct {
	lists   []list // at least one; they combine
	end     byte   // end of a line
	header  bool   // the first line or argument of each list is a name
	perJob  int    // lines in a job; with several lists 1
	columns *regexp.Regexp
}

// list is the arguments after one :::, or the lines of a file.
type list struct {
	args []string
	file string // "": args; -: stdin
}

// source returns the elements of a list one by one, and then io.EOF.
type source func() (string, error)

// splitLists separates the command from the lists after it.
func splitLists(args []string) (command []string, lists []list, err error) {
	for _, arg := range args {
		switch {
		case arg == ":::+" || arg == "::::" || arg == "::::+":
			return nil, nil, cli.Usage("%s is not supported; use ::: for arguments and -a FILE for files of arguments", arg)
		case arg == ":::":
			lists = append(lists, list{})
		case len(lists) == 0:
			command = append(command, arg)
		default:
			last := &lists[len(lists)-1]
			last.args = append(last.args, arg)
		}
	}
	return command, lists, nil
}

// usesTerminal reports whether the input comes from a terminal.
func (in inputs) usesTerminal() bool {
	return slices.ContainsFunc(in.lists, func(l list) bool { return l.file == "-" }) && cli.IsTerminal(os.Stdin)
}

// open opens the input, and returns the names of the columns if there is a header. It reads all lists but the first, which is
// read row by row.
func (in inputs) open() (rs rows, names []string, err error) {
	var first source
	var others [][]string
	for i, l := range in.lists {
		s, err := in.source(l)
		if err != nil {
			return nil, nil, err
		}
		if in.header {
			name, err := s()
			switch {
			case err == nil || len(in.lists) > 1 && errors.Is(err, io.EOF):
				names = append(names, in.split(name)...)
			case !errors.Is(err, io.EOF):
				return nil, nil, err
			}
		}
		if i == 0 {
			first = s
			continue
		}
		all, err := readAll(s)
		if err != nil {
			return nil, nil, err
		}
		others = append(others, all)
	}
	return in.rows(first, others), names, nil
}

func (in inputs) source(l list) (source, error) {
	if l.file == "" {
		args := l.args
		return func() (string, error) {
			if len(args) == 0 {
				return "", io.EOF
			}
			arg := args[0]
			args = args[1:]
			return arg, nil
		}, nil
	}
	f, err := cli.Open(l.file, os.Stdin)
	if err != nil {
		return nil, err
	}
	return linesOf(f, in.end), nil
}

// readAll returns the elements of a source, or one that is empty, as in GNU parallel, so that the other lists are still combined.
func readAll(s source) (all []string, err error) {
	for {
		v, err := s()
		switch {
		case errors.Is(err, io.EOF) && len(all) == 0:
			return []string{""}, nil
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, v)
	}
}

// rows yields the combinations of the lists. The last list changes fastest. The columns of the lines of a job follow each other.
func (in inputs) rows(first source, others [][]string) rows {
	return func(yield func(row, error) bool) {
		var r row
		n := 0
		for values, err := range combine(first, others) {
			if err != nil {
				yield(row{}, err)
				return
			}
			r.whole = append(r.whole, values...)
			for _, v := range values {
				r.values = append(r.values, in.split(v)...)
			}
			n++
			if n == in.perJob {
				if !yield(r, nil) {
					return
				}
				r, n = row{}, 0
			}
		}
		if n > 0 {
			yield(r, nil)
		}
	}
}

func combine(first source, others [][]string) iter.Seq2[[]string, error] {
	each := 1
	for _, other := range others {
		each *= len(other)
	}
	return func(yield func([]string, error) bool) {
		for n := 0; ; n++ {
			v, err := first()
			if errors.Is(err, io.EOF) {
				if n > 0 || len(others) == 0 {
					return
				}
				err = nil // as in readAll
			}
			for i := range each {
				values := make([]string, 1+len(others))
				values[0] = v
				for j, other := range slices.Backward(others) {
					values[1+j] = other[i%len(other)]
					i /= len(other)
				}
				if !yield(values, err) {
					return
				}
			}
		}
	}
}

// split splits a value into columns, without the spaces around them.
func (in inputs) split(v string) []string {
	if in.columns == nil {
		return []string{v}
	}
	columns := in.columns.Split(v, -1)
	for i, c := range columns {
		columns[i] = strings.TrimSpace(c)
	}
	return columns
}

// collect reads all rows.
func collect(rs rows) (all []row, err error) {
	for r, err := range rs {
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// each yields the rows of all.
func each(all []row) rows {
	return func(yield func(row, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// linesOf returns the lines of a text, without their ends and without a byte order mark. They may have any length, and the last
// one may lack its end.
func linesOf(r io.Reader, end byte) source {
	b := bufio.NewReaderSize(r, 64<<10)
	started := false
	return func() (string, error) {
		line, err := b.ReadString(end)
		switch {
		case err == nil:
			line = line[:len(line)-1]
		case !errors.Is(err, io.EOF):
			return "", fmt.Errorf("reading the input: %w", err)
		case line == "":
			return "", io.EOF
		}
		if !started {
			line = strings.TrimPrefix(line, "\ufeff")
			started = true
		}
		if end == '\n' {
			line = strings.TrimSuffix(line, "\r") // as on Windows
		}
		return line, nil
	}
}
