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
	whole  []string // what {} stands for
	values []string // what {1}, {2} … stand for
}

// rows yields the input of the jobs, one by one. An error ends it.
type rows = iter.Seq2[row, error]

// inputs are where the rows come from.
type inputs struct {
	lists   []list // they combine; at least one
	end     byte
	perJob  int            // arguments a job; 0: one, which is not given to it
	columns *regexp.Regexp // nil: a line is one value
}

// list is the arguments after one ::: or :::+, or the lines of a file after :::: or ::::+.
type list struct {
	args   []string
	file   string // "": args; -: standard input
	linked bool   // :::+ or ::::+: goes with the one before, argument by argument
}

// splitLists separates the command from the lists behind it, which come after those before.
func splitLists(args []string, before []list) (command []string, lists []list, err error) {
	lists = before
	first := slices.IndexFunc(args, separates)
	if first < 0 {
		return args, lists, nil
	}
	command, args = args[:first], args[first:]
	for len(args) > 0 {
		sign, linked := strings.CutSuffix(args[0], "+")
		if linked && len(lists) == 0 {
			return nil, nil, cli.Usage("%s stands behind nothing", args[0])
		}
		next := args[1:]
		if i := slices.IndexFunc(next, separates); i >= 0 {
			next = next[:i]
		}
		switch {
		case sign == ":::":
			lists = append(lists, list{args: next, linked: linked})
		case len(next) == 0 || slices.Contains(next, ""):
			return nil, nil, cli.Usage("%s names no file", args[0])
		default:
			for _, file := range next {
				lists = append(lists, list{file: file, linked: linked})
			}
		}
		args = args[1+len(next):]
	}
	return command, lists, nil
}

func separates(arg string) bool {
	return arg == ":::" || arg == ":::+" || arg == "::::" || arg == "::::+"
}

func (in inputs) rows(stdin io.Reader) (rows, error) {
	if len(in.lists) > 1 || in.lists[0].file == "" {
		lists := slices.Clone(in.lists)
		for i, l := range lists {
			if l.file == "" {
				continue
			}
			var err error
			if lists[i].args, err = in.readAll(l.file, stdin); err != nil {
				return nil, err
			}
		}
		return in.perRow(combine(lists)), nil
	}
	f, err := open(in.lists[0].file, stdin)
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
	switch {
	case in.perJob > 1:
		return in.group(rs)
	case in.perJob == 0:
		return withoutArguments(rs)
	}
	return rs
}

// withoutArguments yields an empty row for each.
func withoutArguments(rs rows) rows {
	return func(yield func(row, error) bool) {
		for _, err := range rs {
			if !yield(row{}, err) {
				return
			}
		}
	}
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
