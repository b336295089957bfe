package run

import (
	"os"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// understand reads the words that may hold replacement strings.
func (r *runner) understand(names []string) {
	s := r.o.syntax
	s.names = names
	r.template = s.parse(r.o.command)
	r.template.each = r.o.perJobEach > 0 || r.o.fillEach
	r.results = results{dir: r.o.results, names: names}
	r.o.key = []token{{kind: plain}}
	if r.o.flags.key != "" {
		r.o.key = s.parseWord(r.o.flags.key)
	}
	if r.o.tagText != "" {
		r.o.tagWord = s.parseWord(r.o.tagText)
	}
	if script := r.template.script(); script != nil && replaces(script) {
		r.say(`what stands for {} inside of the script is read as a part of it; write ` + r.o.command[0] + ` -c '... "$1"' sh {}`)
	}
}

// openFiles opens the joblog, and what the jobs read.
func (r *runner) openFiles() (err error) {
	if name, appends := strings.CutPrefix(r.o.joblog, "+"); name != "" {
		if r.o.retryFailed {
			appends = true // rows has read it
			r.skip = r.o.done
		}
		if r.o.resume || r.o.resumeFailed {
			appends = true
			if r.skip, err = readJoblog(name, r.o.resumeFailed); err != nil {
				return err
			}
		}
		if r.log, err = openJoblog(name, appends); err != nil {
			return err
		}
	}
	r.null, err = os.Open(os.DevNull)
	return err
}

func (r *runner) closeFiles() {
	if r.log != nil {
		_ = r.log.f.Close()
	}
	_ = r.null.Close()
}

// countAll finds out how many jobs there are, if that is asked for: for --halt from the rows, which it reads.
func (r *runner) countAll(rs rows) (rows, error) {
	var err error
	switch {
	case r.o.halt.percent > 0:
		rs, r.all, err = counted(rs)
	case r.o.bar && r.o.fills():
	case r.o.bar && r.o.retryFailed:
		r.all = len(r.o.again)
	case r.o.bar:
		r.all, err = r.o.inputs.total()
	}
	return rs, err
}

// showBar shows the bar below what is written to the terminal.
func (r *runner) showBar() {
	r.bar = newBar(r.all)
	if r.bar == nil {
		return
	}
	r.output.err = r.bar.line.Above(r.output.err)
	if cli.IsTerminal(os.Stdout) {
		r.output.out = r.bar.line.Above(r.output.out)
	}
}

// counted reads all rows, to know how many there are.
func counted(rs rows) (rows, int, error) {
	var all []row
	for r, err := range rs {
		if err != nil {
			return nil, 0, err
		}
		all = append(all, r)
	}
	return func(yield func(row, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}, len(all), nil
}
