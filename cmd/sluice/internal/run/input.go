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
	whole   []string // what {} stands for: the line, or the arguments
	values  []string // what {1}, {2} and so on stand for
	grouped bool     // whole are the lines of several rows; see --max-args
}

// rows yields the input of the jobs, one by one. An error ends it.
type rows = iter.Seq2[row, error]

// inputs are where the rows come from.
type inputs struct {
	lists   []list // at least one; they combine
	end     byte   // of a line
	header  bool   // the first line or argument of each list is a name
	perJob  int    // rows in a job; 0: one, which the job does not see
	counted bool   // the number of jobs is asked for
	columns *regexp.Regexp
}

// opened is what there is to run for.
type opened struct {
	rows  rows
	names []string // of the columns, if there is a header
	jobs  int      // 0: not known before the rows are read
}

// list is the arguments after one ::: or :::+, or the lines of a file after :::: or ::::+.
type list struct {
	args   []string
	file   string // "": args; -: standard input
	linked linked
}

// linked says how a list goes with the one before.
type linked uint8

const (
	combined linked = iota // each argument with all of the lists before
	paired                 // argument by argument, up to the end of the shorter one: :::+, ::::+
	cycled                 // argument by argument, the shorter one beginning anew: --link
)

// splitLists separates the command from the lists behind it, which come after those before.
func splitLists(args []string, before []list) (command []string, lists []list, err error) {
	lists = before
	first := slices.IndexFunc(args, separates)
	if first < 0 {
		return args, lists, nil
	}
	command, args = args[:first], args[first:]
	for len(args) > 0 {
		sign, plus := strings.CutSuffix(args[0], "+")
		goes := combined
		if plus {
			goes = paired
		}
		if plus && len(lists) == 0 {
			return nil, nil, cli.Usage("%s stands behind nothing", args[0])
		}
		next := args[1:]
		if i := slices.IndexFunc(next, separates); i >= 0 {
			next = next[:i]
		}
		switch {
		case sign == ":::":
			lists = append(lists, list{args: next, linked: goes})
		case len(next) == 0 || slices.Contains(next, ""):
			return nil, nil, cli.Usage("%s names no file", args[0])
		default:
			for _, file := range next {
				lists = append(lists, list{file: file, linked: goes})
			}
		}
		args = args[1+len(next):]
	}
	return command, lists, nil
}

func separates(arg string) bool {
	return arg == ":::" || arg == ":::+" || arg == "::::" || arg == "::::+"
}

// usesTerminal reports whether a person is to type the input.
func (in inputs) usesTerminal() bool {
	return slices.ContainsFunc(in.lists, func(l list) bool { return l.file == "-" }) && cli.IsTerminal(os.Stdin)
}

// open opens the input.
func (in inputs) open(stdin io.Reader) (o opened, err error) {
	if len(in.lists) > 1 || in.lists[0].file == "" {
		o, err = in.combined(stdin)
	} else {
		o, err = in.streamed(stdin)
	}
	if err != nil {
		return o, err
	}
	if in.columns != nil {
		o.rows = in.split(o.rows)
	}
	switch {
	case in.perJob > 1:
		o.rows, o.jobs = in.group(o.rows), (o.jobs+in.perJob-1)/in.perJob
	case in.perJob == 0:
		o.rows = withoutArguments(o.rows)
	}
	return o, nil
}

// streamed reads the only file while the jobs run.
func (in inputs) streamed(stdin io.Reader) (o opened, err error) {
	name := in.lists[0].file
	if in.counted && isRegular(name) {
		if o.jobs, err = countLines(name, in.end); err != nil {
			return o, err
		}
	}
	f, err := cli.Open(name, stdin)
	if err != nil {
		return o, err
	}
	lines := newLines(f, in.end)
	if in.header {
		o.jobs = max(o.jobs-1, 0)
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

// combined reads all lists, and then combines them.
func (in inputs) combined(stdin io.Reader) (o opened, err error) {
	lists := slices.Clone(in.lists)
	for i := range lists {
		l := &lists[i]
		if l.file != "" {
			if l.args, err = in.readAll(l.file, stdin); err != nil {
				return o, err
			}
		}
		if in.header {
			name := ""
			if len(l.args) > 0 {
				name, l.args = l.args[0], l.args[1:]
			}
			o.names = append(o.names, name)
		}
		if len(l.args) == 0 && len(lists) > 1 {
			l.args = []string{""} // as parallel does: the other lists go on without it
		}
	}
	o.rows, o.jobs = combine(lists)
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

// combine yields each combination of the lists' arguments, the last list turning fastest, and returns how many there are.
// Linked lists turn together.
func combine(lists []list) (rs rows, n int) {
	groups := linkedGroups(lists)
	n = 1
	for _, group := range groups {
		n *= turns(group)
	}
	return func(yield func(row, error) bool) {
		combineFrom(groups, nil, func(values []string) bool {
			v := slices.Clone(values)
			return yield(row{whole: v, values: v}, nil)
		})
	}, n
}

// linkedGroups puts lists that are linked together.
func linkedGroups(lists []list) (groups [][]list) {
	for _, l := range lists {
		if l.linked != combined && len(groups) > 0 {
			groups[len(groups)-1] = append(groups[len(groups)-1], l)
		} else {
			groups = append(groups, []list{l})
		}
	}
	return groups
}

func combineFrom(groups [][]list, chosen []string, yield func([]string) bool) bool {
	if len(groups) == 0 {
		return yield(chosen)
	}
	for i := range turns(groups[0]) {
		next := slices.Clip(chosen)
		for _, l := range groups[0] {
			next = append(next, l.args[i%len(l.args)])
		}
		if !combineFrom(groups[1:], next, yield) {
			return false
		}
	}
	return true
}

// turns returns how often lists that are linked turn together.
func turns(group []list) int {
	n := len(group[0].args)
	for _, l := range group[1:] {
		if l.linked == cycled {
			n = max(n, len(l.args))
		} else {
			n = min(n, len(l.args))
		}
	}
	return n
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

// each yields rows that were read.
func each(all []row) rows {
	return func(yield func(row, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
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

// split splits what {1}, {2} and so on stand for into columns, without the spaces around them.
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

// group makes one row of several: their columns follow each other.
func (in inputs) group(rs rows) rows {
	return func(yield func(row, error) bool) {
		all := row{grouped: true}
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
				all, n = row{grouped: true}, 0
			}
		}
		if n > 0 {
			yield(all, nil)
		}
	}
}
