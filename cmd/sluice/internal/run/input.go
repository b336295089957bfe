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

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// row is the input of one job.
type row struct {
	whole  []string // what {} stands for
	values []string // what {1}, {2} … stand for
}

// rows yields the input of the jobs, one by one. An error ends it.
type rows = iter.Seq2[row, error]

// inputs are where the rows come from.
type inputs struct {
	lists   []list   // after ::: and :::+; none: files
	files   []string // of -a; none: standard input
	end     byte
	perJob  int            // arguments a job
	columns *regexp.Regexp // nil: a line is one value
}

// list is the arguments after one ::: or :::+.
type list struct {
	args   []string
	linked bool // :::+: goes with the one before, argument by argument
}

// splitLists separates the command from the lists of arguments behind it.
func splitLists(args []string) (command []string, lists []list) {
	for _, a := range args {
		switch {
		case a == ":::" || a == ":::+":
			lists = append(lists, list{linked: a == ":::+"})
		case lists == nil:
			command = append(command, a)
		default:
			l := &lists[len(lists)-1]
			l.args = append(l.args, a)
		}
	}
	return command, lists
}

func (in inputs) rows(stdin io.Reader) (rows, error) {
	if in.lists != nil {
		if in.lists[0].linked {
			return nil, cli.Usage(":::+ stands behind nothing")
		}
		return in.perRow(combine(in.lists)), nil
	}
	if len(in.files) > 1 {
		var lists []list
		for _, name := range in.files {
			args, err := in.readAll(name, stdin)
			if err != nil {
				return nil, err
			}
			lists = append(lists, list{args: args})
		}
		return in.perRow(combine(lists)), nil
	}
	name := "-"
	if len(in.files) == 1 {
		name = in.files[0]
	}
	f, err := open(name, stdin)
	if err != nil {
		return nil, err
	}
	return in.perRow(func(yield func(row, error) bool) {
		defer func() { _ = f.Close() }()
		for line, err := range lines(f, in.end) {
			if !yield(row{[]string{line}, []string{line}}, err) {
				return
			}
		}
	}), nil
}

func open(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}

func (in inputs) readAll(name string, stdin io.Reader) (args []string, err error) {
	f, err := open(name, stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for line, err := range lines(f, in.end) {
		if err != nil {
			return nil, err
		}
		args = append(args, line)
	}
	return args, nil
}

// lines yields what stands between the ends of lines, however long.
func lines(r io.Reader, end byte) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		b := bufio.NewReaderSize(r, 64<<10)
		for {
			line, err := b.ReadString(end)
			if n := len(line); n > 0 && line[n-1] == end {
				line = line[:n-1]
			} else if n == 0 && errors.Is(err, io.EOF) {
				return
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield("", fmt.Errorf("reading the input: %w", err))
				return
			}
			if !yield(line, nil) || err != nil {
				return
			}
		}
	}
}

// combine yields each combination of the lists' arguments, the last list turning fastest. Lists that are linked turn
// together, as far as the shortest goes.
func combine(lists []list) rows {
	var groups [][]list
	for _, l := range lists {
		if l.linked {
			groups[len(groups)-1] = append(groups[len(groups)-1], l)
		} else {
			groups = append(groups, []list{l})
		}
	}
	return func(yield func(row, error) bool) {
		combineFrom(groups, nil, func(values []string) bool {
			v := append([]string(nil), values...)
			return yield(row{v, v}, nil)
		})
	}
}

func combineFrom(groups [][]list, chosen []string, yield func([]string) bool) bool {
	if len(groups) == 0 {
		return yield(chosen)
	}
	length := len(groups[0][0].args)
	for _, l := range groups[0] {
		length = min(length, len(l.args))
	}
	for i := range length {
		next := slices.Clip(chosen)
		for _, l := range groups[0] {
			next = append(next, l.args[i])
		}
		if !combineFrom(groups[1:], next, yield) {
			return false
		}
	}
	return true
}

// perRow makes the rows of jobs out of those of the input: in columns, and several in one.
func (in inputs) perRow(rs rows) rows {
	if in.columns != nil {
		rs = in.split(rs)
	}
	if in.perJob > 1 {
		return in.group(rs)
	}
	return rs
}

// split splits what {1}, {2} … stand for into columns.
func (in inputs) split(rs rows) rows {
	return func(yield func(row, error) bool) {
		for r, err := range rs {
			values := make([]string, 0, len(r.values))
			for _, v := range r.values {
				values = append(values, in.columns.Split(v, -1)...)
			}
			if !yield(row{r.whole, values}, err) {
				return
			}
		}
	}
}

// group makes one row of several: their columns follow each other.
func (in inputs) group(rs rows) rows {
	return func(yield func(row, error) bool) {
		var all row
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
