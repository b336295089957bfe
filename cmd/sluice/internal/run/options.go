package run

import (
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

// options are the flags, understood.
type options struct {
	flags
	command []string
	inputs  inputs
	syntax  syntax
	jobs    int // 0: no limit
	rate    spec.Limit
	perKey  spec.Limit // Unlimited: none
	halt    halt
	load    float64 // percent; 0: not asked
	key     []token
	tagWord []token // nil: no --tagstring

	again []row        // of --retry-failed: the commands of the joblog, by their numbers
	done  map[int]bool // numbers of those that are not to run again

	delay, retryDelay, timeout time.Duration
}

// limited reports whether there is a limit for each key.
func (o *options) limited() bool { return o.perKey.Kind != spec.Unlimited }

func (f *flags) options(args []string) (o options, err error) {
	o = options{
		flags: *f, syntax: syntax{sign: f.sign},
		delay: time.Duration(f.delay), retryDelay: time.Duration(f.retryDelay), timeout: time.Duration(f.timeout),
	}
	if o.command, o.inputs, err = f.inputs(args); err != nil {
		return o, err
	}
	if f.retryFailed {
		if err := o.readAgain(args); err != nil {
			return o, err
		}
	}
	if len(o.command) == 0 {
		return o, cli.Usage("no command")
	}
	if err := f.check(o.inputs); err != nil {
		return o, err
	}
	if o.jobs, err = parseJobs(f.jobs); err != nil {
		return o, err
	}
	if o.rate, err = parseRate("--rate", f.rate); err != nil {
		return o, err
	}
	if o.rate.Kind == spec.Concurrency {
		return o, cli.Usage("--rate %q is no rate, want one such as 10/s; --jobs says how many run at once", f.rate)
	}
	if o.perKey, err = parseRate("--rate-per-key", f.perKey); err != nil {
		return o, err
	}
	if o.halt, err = parseHalt(f.halt); err != nil {
		return o, err
	}
	if f.load != "" {
		o.load, err = strconv.ParseFloat(strings.TrimSuffix(f.load, "%"), 64)
		if err != nil || !(o.load > 0 && o.load <= 100) {
			return o, cli.Usage("--load %q, want a percentage above 0, at most 100", f.load)
		}
	}
	return o, nil
}

// fills reports whether each job gets as many lines as fit.
func (o *options) fills() bool { return (o.fill || o.fillEach) && o.inputs.perJob == 1 }

// inputs returns the command and where its arguments come from.
func (f *flags) inputs(args []string) (command []string, in inputs, err error) {
	in = inputs{end: '\n', perJob: f.perJob, header: f.header != "", counted: f.bar}
	if f.perJobEach > 0 {
		in.perJob = f.perJobEach
	}
	lists := make([]list, 0, len(f.files))
	for _, name := range f.files {
		lists = append(lists, list{file: name})
	}
	if command, in.lists, err = splitLists(args, lists); err != nil {
		return nil, in, err
	}
	if len(in.lists) == 0 {
		in.lists = []list{{file: "-"}}
	}
	if f.link {
		for i := range in.lists[1:] {
			in.lists[1+i].linked = cycled
		}
	}
	switch {
	case f.null:
		in.end = 0
	case f.delimiter != "":
		if in.end, err = parseDelimiter(f.delimiter); err != nil {
			return nil, in, err
		}
	}
	if f.colsep != "" {
		if in.columns, err = regexp.Compile(f.colsep); err != nil {
			return nil, in, cli.Usage("--colsep %q: %w", f.colsep, err)
		}
	}
	return command, in, nil
}

// parseDelimiter reads a character, which may be written as in a string of Go.
func parseDelimiter(text string) (byte, error) {
	if text == `\0` {
		return 0, nil
	}
	if len(text) > 1 {
		if s, err := strconv.Unquote(`"` + text + `"`); err == nil {
			text = s
		}
	}
	if len(text) != 1 {
		return 0, cli.Usage("--delimiter %q, want one character of one byte, or \\n, \\t, \\0 or \\x1f", text)
	}
	return text[0], nil
}

// check finds flags that do not go with each other.
func (f *flags) check(in inputs) error {
	switch {
	case slices.Contains(f.files, ""):
		return cli.Usage("--arg-file is empty")
	case f.perJobEach < 0:
		return cli.Usage("--max-replace-args %d, want at least 1", f.perJobEach)
	case f.perJob < 0:
		return cli.Usage("--max-args %d, want at least 0", f.perJob)
	case in.perJob > 1 && len(in.lists) > 1:
		return cli.Usage("--max-args with several lists of arguments")
	case f.perJob == 0 && f.results != "":
		return cli.Usage("--results with --max-args 0: the jobs have nothing to tell their folders by")
	case (f.fill || f.fillEach) && len(in.lists) > 1:
		return cli.Usage("--fill with several lists of arguments")
	case (f.fill || f.fillEach) && f.results != "":
		return cli.Usage("--results with --fill: the names of the folders would be too long")
	case (f.fill || f.fillEach) && f.perJob == 0:
		return cli.Usage("--fill and --max-args 0: want one of them")
	case f.shuffle && (f.resume || f.resumeFailed):
		return cli.Usage("--shuf and --resume: another order gives the jobs other numbers")
	case f.tries < 1:
		return cli.Usage("--retries %d, want at least 1, which is the first try", f.tries)
	case f.key != "" && f.perKey == "":
		return cli.Usage("--key without --rate-per-key")
	case (f.resume || f.resumeFailed) && f.joblog == "":
		return cli.Usage("--resume needs the --joblog of the run before")
	case f.header != "" && f.header != ":":
		return cli.Usage("--header %q, want :", f.header)
	case f.null && f.delimiter != "":
		return cli.Usage("--null and --delimiter: want one of them")
	}
	return nil
}

func parseJobs(text string) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || number[0] == '+' || percent && n == 0 {
		return 0, cli.Usage("--jobs %q, want a number, a percentage of the processors such as 200%%, or 0 for no limit", text)
	}
	if percent {
		n = int(max(min(float64(n)*float64(runtime.NumCPU())/100, math.MaxInt32), 1))
	}
	return n, nil
}

// parseRate reads a limit on starts. Its queue makes no difference: a job waits.
func parseRate(flag, text string) (spec.Limit, error) {
	if text == "" {
		return spec.Limit{Kind: spec.Unlimited}, nil
	}
	l, err := spec.Parse(text)
	if err != nil {
		return l, cli.Usage("%s %s", flag, strings.TrimPrefix(err.Error(), "spec: "))
	}
	if l.Kind != spec.Unlimited {
		l.Queue = math.MaxInt
	}
	if l.Kind == spec.TokenBucket && l.Burst == 0 { // starts come evenly: those of 10 ms at once
		l.Burst = int(max(1, min(float64(l.Permits)*float64(10*time.Millisecond)/float64(l.Per), 1e6)))
	}
	return l, nil
}
