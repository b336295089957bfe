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

// showBar shows the bar below what is written to the terminal.
func (r *runner) showBar() {
	r.bar = newBar(r.tally.all)
	if r.bar == nil {
		return
	}
	r.output.err = r.bar.line.Above(r.output.err)
	if cli.IsTerminal(os.Stdout) {
		r.output.out = r.bar.line.Above(r.output.out)
	}
}
