package run

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// readAgain prepares --retry-failed: the input is the commands in the joblog, whose jobs keep their numbers.
func (o *options) readAgain(args []string) error {
	name := strings.TrimPrefix(o.joblog, "+")
	switch {
	case len(args) > 0:
		return cli.Usage("--retry-failed and %q: the commands are those of the joblog", args[0])
	case name == "":
		return cli.Usage("--retry-failed needs the --joblog of the run before")
	case o.resume || o.resumeFailed || o.shuffle:
		return cli.Usage("--retry-failed with --resume or --shuf")
	}
	all, err := readCommands(name)
	if err != nil {
		return err
	}
	o.done = make(map[int]bool)
	for seq := 1; seq <= len(all); seq++ {
		o.done[seq] = !all[seq-1].failed
		var r row
		if all[seq-1].failed {
			if r.whole, err = unquote(all[seq-1].text); err != nil {
				return fmt.Errorf("%s: job %d: %w; use --resume-failed with the command", name, seq, err)
			}
			r.values = r.whole
		}
		o.again = append(o.again, r)
	}
	o.command, o.syntax, o.inputs.lists = []string{"{}"}, syntax{}, nil
	return nil
}

// open opens the input.
func (o *options) open(stdin io.Reader) (opened, error) {
	if o.flags.retryFailed {
		return opened{rows: each(o.again), jobs: len(o.again)}, nil
	}
	return o.inputs.open(stdin)
}

// readCommands returns the jobs of a joblog by their numbers, from 1 on.
func readCommands(name string) (all []logged, err error) {
	err = eachLogged(name, func(seq int, l logged) {
		for len(all) < seq {
			all = append(all, logged{})
		}
		all[seq-1] = l
	})
	return all, err
}

var (
	errLines  = errors.New(`its command has \n in the joblog, which may stand for the end of a line`)
	errQuotes = errors.New("its command in the joblog is for a shell")
)

// unquote reads words as quote writes them, and as a shell reads them but for what it expands.
func unquote(text string) (words []string, err error) {
	if strings.Contains(text, `\n`) {
		return nil, errLines
	}
	var word strings.Builder
	began := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t':
			if began {
				words = append(words, word.String())
			}
			word.Reset()
			began = false
		case '\'', '"':
			end := strings.IndexByte(text[i+1:], c)
			inside := text[i+1:][:max(end, 0)]
			if end < 0 || c == '"' && strings.ContainsAny(inside, "$`\\") {
				return nil, errQuotes
			}
			word.WriteString(inside)
			began = true
			i += 1 + end
		case '\\':
			if i == len(text)-1 {
				return nil, errQuotes
			}
			i++
			word.WriteByte(text[i])
			began = true
		case '|', '&', ';', '<', '>', '(', ')', '$', '`', '*', '?', '[', '#', '~', '!', '{', '}':
			return nil, errQuotes
		default:
			word.WriteByte(c)
			began = true
		}
	}
	if began {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errQuotes
	}
	return words, nil
}
