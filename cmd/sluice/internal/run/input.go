package run

import (
	"errors"
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
	end     byte   // of a line
	header  bool   // the first line or argument of each list is a name
	perJob  int    // rows in a job
	columns *regexp.Regexp
}

// opened is the opened input.
type opened struct {
	rows  rows
	names []string // of the columns, if there is a header
}

// list is the arguments after one :::, or the lines of a file.
type list struct {
	args []string
	file string // "": args; -: stdin
}

// splitLists separates the command from the lists after it, and appends these to before.
func splitLists(args []string, before []list) (command []string, lists []list, err error) {
	lists = before
	for _, arg := range args {
		switch {
		case arg == ":::+" || arg == "::::" || arg == "::::+":
			return nil, nil, cli.Usage("%s is not supported; use ::: for arguments and -a FILE for files of arguments", arg)
		case arg == ":::":
			lists = append(lists, list{})
		case len(lists) == len(before):
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

// open opens the input.
func (in inputs) open(stdin io.Reader) (o opened, err error) {
	if name := in.lists[0].file; len(in.lists) == 1 && name != "" {
		o, err = in.streamed(name, stdin)
	} else {
		o, err = in.combined(stdin)
	}
	if err != nil {
		return o, err
	}
	if in.columns != nil {
		o.rows = in.split(o.rows)
	}
	if in.perJob > 1 {
		o.rows = in.group(o.rows)
	}
	return o, nil
}

// count returns the number of jobs, or 0 if it is unknown before the input is read.
func (in inputs) count(o opened) (n int, err error) {
	if len(in.lists) == 1 && in.lists[0].file != "" {
		if !isRegular(in.lists[0].file) {
			return 0, nil
		}
		if o, err = in.open(nil); err != nil {
			return 0, err
		}
	}
	for _, err := range o.rows {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// streamed reads a single file while the jobs run.
func (in inputs) streamed(name string, stdin io.Reader) (o opened, err error) {
	f, err := cli.Open(name, stdin)
	if err != nil {
		return o, err
	}
	lines := newLines(f, in.end)
	if in.header {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
		case err != nil:
			return o, errors.Join(err, f.Close())
		case in.columns != nil:
			o.names = in.splitLine(line)
		default:
			o.names = []string{line}
		}
	}
	o.rows = func(yield func(row, error) bool) {
		defer func() { _ = f.Close() }()
		for line, err := range lines.all {
			if !yield(row{whole: []string{line}, values: []string{line}}, err) {
				return
			}
		}
	}
	return o, nil
}

// combined reads all lists, and then yields each combination of their arguments. The last list changes fastest.
func (in inputs) combined(stdin io.Reader) (o opened, err error) {
	lists := make([][]string, len(in.lists))
	n := 1
	for i, l := range in.lists {
		args := l.args
		if l.file != "" {
			if args, err = in.readAll(l.file, stdin); err != nil {
				return o, err
			}
		}
		if in.header {
			name := ""
			if len(args) > 0 {
				name, args = args[0], args[1:]
			}
			o.names = append(o.names, name)
		}
		if len(args) == 0 && len(lists) > 1 {
			args = []string{""} // as in GNU parallel: the other lists are still combined
		}
		lists[i] = args
		n *= len(args)
	}
	o.rows = func(yield func(row, error) bool) {
		for i := range n {
			values := make([]string, len(lists))
			for j, args := range slices.Backward(lists) {
				values[j] = args[i%len(args)]
				i /= len(args)
			}
			if !yield(row{whole: values, values: values}, nil) {
				return
			}
		}
	}
	return o, nil
}

func (in inputs) readAll(name string, stdin io.Reader) (args []string, err error) {
	f, err := cli.Open(name, stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for line, err := range newLines(f, in.end).all {
		if err != nil {
			return nil, err
		}
		args = append(args, line)
	}
	return args, nil
}

func isRegular(name string) bool {
	info, err := os.Stat(name)
	return err == nil && name != "-" && info.Mode().IsRegular()
}

// readRows reads all rows.
func readRows(rs rows) (all []row, err error) {
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

// split splits the values of {1}, {2} and so on into columns, without the spaces around them.
func (in inputs) split(rs rows) rows {
	return func(yield func(row, error) bool) {
		for r, err := range rs {
			values := make([]string, 0, len(r.values))
			for _, v := range r.values {
				values = append(values, in.splitLine(v)...)
			}
			if !yield(row{whole: r.whole, values: values}, err) {
				return
			}
		}
	}
}

func (in inputs) splitLine(line string) []string {
	columns := in.columns.Split(line, -1)
	for i, c := range columns {
		columns[i] = strings.TrimSpace(c)
	}
	return columns
}

// group joins several rows to one: their columns follow each other.
func (in inputs) group(rs rows) rows {
	return func(yield func(row, error) bool) {
		all := row{}
		n := 0
		for r, err := range rs {
			if err != nil {
				yield(row{}, err)
				return
			}
			all.whole = append(all.whole, r.whole...)
			all.values = append(all.values, r.values...)
			n++
			if n == in.perJob {
				if !yield(all, nil) {
					return
				}
				all, n = row{}, 0
			}
		}
		if n > 0 {
			yield(all, nil)
		}
	}
}
