// Package run runs a command once for each line of input, with limits on concurrency and on the rate of starts.
//
// The path of a job:
//
//	input -> row -> job -> [line of its key ->] worker.Pool -> process -> pumps -> streams -> [order ->] output -> joblog
//	                        ^                                     |
//	                        +-------------- another try ----------+
//
// Each job is a goroutine; see live. The pool starts the job's program when the limits on jobs and on starts allow it. One
// goroutine reads the rows. Before the next row, it waits until the job has started, or, with a limit per key, until fewer
// than 1,000 jobs wait for their keys. Locks are taken in this order: stream, output.
package run

import (
	"context"
	"errors"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

const examples = `  find . -name '*.flac' | sluice run -j4 flac -d {} -o /tmp/{/.}.wav
  sluice run --rate 10/s -j 32 curl -sf {} < urls.txt
  sluice run --rate-per-key 1/s --key {1} --colsep ' ' fetch {1} {2} < hosts-and-paths.txt
  sluice run -k --tag ping -c1 ::: alpha beta gamma
  sluice run --joblog log --retries 3 ./convert {} {.}.png ::: *.svg
  sluice run --joblog log --resume-failed ./convert {} {.}.png ::: *.svg`

// flags are the command's flags, as the user wrote them.
type flags struct {
	jobs, rate, perKey, key    string
	keepOrder, tag, lineBuffer bool
	dryRun, null, bar          bool
	delimiter, header, colsep  string
	perJob, tries              int
	files                      []string
	halt, joblog               string
	resume, resumeFailed       bool
	retryDelay, timeout        cli.Duration
}

// New returns the command.
func New() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "run [flags] COMMAND [ARG...] [::: ARG...]...",
		Short: "Run a command for each line of input, with limits on concurrency and rate",
		Long: `Run runs COMMAND, without a shell, once for each line of stdin, or for each argument after
:::, like xargs -P and GNU parallel. Several ::: give all combinations of their arguments.
The stdin of the jobs is empty.

{} is replaced by the line, {.} by the line without its extension, {/} without directories,
{/.} without both, {//} by its directory, {1} {2} ... by the columns of --colsep or the
values of the lists, {-1} by the last of these, {#} by the job's number, {%} by its slot.
If the command has none of them, the line is appended.
For pipes, write sh -c '... "$1"' sh {}. Do not put {} into the script itself, because the
shell would run its text as code.

Jobs start at even intervals. Add a burst to the SPEC to let several start together. With
--rate-per-key, up to 1,000 jobs wait for their keys while jobs of other keys start. If more
jobs of one key wait, they block the other keys, so shuffle input that is sorted by key.

After Ctrl-C, run starts no more jobs and waits for the running ones. A second Ctrl-C ends
them. If their output is blocked, a third Ctrl-C discards it. Ctrl-Z stops all jobs.
The exit status is the number of failed jobs, 101 for more than 100.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := f.options(args)
			if err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f.define(c.Flags())
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return hint(c.Flags(), err) })
	for flag, values := range map[string][]string{
		"key":  {"{}", "{1}", "{2}", "{.}", "{/}", "{//}", "{/.}"},
		"halt": {"never", "now,fail=1", "soon,fail=1", "now,fail=10%", "soon,fail=10%", "now,success=1", "soon,success=1", "now,done=1", "soon,done=1"},
	} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return c
}

func (f *flags) define(s *pflag.FlagSet) {
	s.SortFlags = false
	s.SetInterspersed(false) // what follows COMMAND is its own
	s.StringVarP(&f.jobs, "jobs", "j", "100%", "run `N` jobs at a time, or N% of the CPUs; 0 means no limit")
	s.StringVar(&f.rate, "rate", "", "start jobs at most at the rate `SPEC`: 10/s, \"100/m burst 5\" (default: no limit)")
	s.StringVar(&f.perKey, "rate-per-key", "", "start the jobs of each key at most at the rate `SPEC`")
	s.StringVar(&f.key, "key", "", "use `TEXT` as the key for --rate-per-key: {1}, {//}, ... (default: {}, the whole line)")
	s.BoolVarP(&f.keepOrder, "keep-order", "k", false, "print output in the order of the input")
	s.BoolVar(&f.tag, "tag", false, "print the input in front of each line of output")
	s.BoolVar(&f.lineBuffer, "line-buffer", false, "print output line by line instead of job by job")
	s.BoolVar(&f.dryRun, "dry-run", false, "print the commands instead of running them")
	s.BoolVarP(&f.null, "null", "0", false, "split the input at NUL instead of newlines")
	s.StringVarP(&f.delimiter, "delimiter", "d", "", "split the input at `C`: a character, or \\n, \\t, \\0")
	s.IntVarP(&f.perJob, "max-args", "n", 1, "give each job `N` lines, at least 1")
	s.StringArrayVarP(&f.files, "arg-file", "a", nil, "read the input from `FILE`; several give all combinations")
	s.StringVar(&f.colsep, "colsep", "", "split lines into columns at this regular `EXPRESSION`")
	s.StringVar(&f.header, "header", "", "use the first line, or the first argument of each list, as column names for {NAME}; the value is always `:`")
	s.IntVar(&f.tries, "retries", 1, "try a failing job up to `N` times in all, at least 1")
	s.Var(&f.retryDelay, "retry-delay", "wait `TIME` before the next try: 250ms, 1h30m, or a number of seconds (default: no time)")
	s.Var(&f.timeout, "timeout", "end a job that takes longer than `TIME` (default: no limit)")
	s.StringVar(&f.halt, "halt", "", "stop early: `WHEN`,fail=N or N%, success=N or done=N; WHEN is now or soon")
	s.StringVar(&f.joblog, "joblog", "", "write a line for each job to `FILE`; +FILE appends to it")
	s.BoolVar(&f.resume, "resume", false, "skip jobs that are in the joblog")
	s.BoolVar(&f.resumeFailed, "resume-failed", false, "skip jobs that succeeded according to the joblog")
	s.BoolVar(&f.bar, "bar", false, "show how many jobs have ended, and the time left")
}

// instead lists flags of xargs and GNU parallel, and what to use here.
var instead = map[string]string{
	"L": "use -n N for the lines of a job, or --rate for a limit on starts", "N": "use -n N", "P": "use -j N", "I": "use {}",
	"delay": "use --rate, such as 1/2s", "lb": "use --line-buffer", "eta": "use --bar", "progress": "use --bar",
}

// hint adds a replacement to the error of an unknown flag.
func hint(flags *pflag.FlagSet, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, dashes := unknown.GetSpecifiedName(), "--"
		if len(name) == 1 {
			dashes = "-"
		}
		if use := instead[name]; use != "" {
			return cli.Usage("%s%s is not a flag; %s", dashes, name, use)
		}
	}
	return cli.FlagError(flags, err)
}

// options are the flags and what they mean.
type options struct {
	flags
	command             []string
	inputs              inputs
	jobs                int // 0: no limit
	rate                spec.Limit
	perKey              spec.Limit // Unlimited: none
	halt                halt
	retryDelay, timeout time.Duration
}

func (f *flags) options(args []string) (o options, err error) {
	o = options{flags: *f, retryDelay: time.Duration(f.retryDelay), timeout: time.Duration(f.timeout)}
	if o.command, o.inputs, err = f.inputs(args); err != nil {
		return o, err
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
		return o, cli.Usage("--rate %q is not a rate such as 10/s; use --jobs to limit the jobs that run at a time", f.rate)
	}
	if o.perKey, err = parseRate("--rate-per-key", f.perKey); err != nil {
		return o, err
	}
	o.halt, err = parseHalt(f.halt)
	return o, err
}

// inputs returns the command and the sources of its arguments.
func (f *flags) inputs(args []string) (command []string, in inputs, err error) {
	in = inputs{end: '\n', perJob: f.perJob, header: f.header != ""}
	for _, name := range f.files {
		in.lists = append(in.lists, list{file: name})
	}
	if command, in.lists, err = splitLists(args, in.lists); err != nil {
		return nil, in, err
	}
	if len(in.lists) == 0 {
		in.lists = []list{{file: "-"}}
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
			return nil, in, cli.Usage("--colsep %q is not a regular expression: %w", f.colsep, err)
		}
	}
	return command, in, nil
}

// parseDelimiter reads a character, or an escape sequence of a Go string.
func parseDelimiter(text string) (byte, error) {
	if text == `\0` {
		return 0, nil
	}
	short := text
	if len(text) > 1 {
		if s, err := strconv.Unquote(`"` + text + `"`); err == nil {
			short = s
		}
	}
	if len(short) != 1 {
		return 0, cli.Usage("--delimiter %q is not a single byte such as , or \\n, \\t, \\0, \\x1f", text)
	}
	return short[0], nil
}

// check reports flags that cannot be used together, and values that are out of range.
func (f *flags) check(in inputs) error {
	switch {
	case slices.Contains(f.files, ""):
		return cli.Usage("--arg-file is empty")
	case f.perJob < 1:
		return cli.Usage("--max-args %d is too small; use at least 1", f.perJob)
	case in.perJob > 1 && len(in.lists) > 1:
		return cli.Usage("--max-args does not work with several lists of arguments")
	case f.tries < 1:
		return cli.Usage("--retries %d is too small; use at least 1, which is the first try", f.tries)
	case f.key != "" && f.perKey == "":
		return cli.Usage("--key requires --rate-per-key")
	case (f.resume || f.resumeFailed) && f.joblog == "":
		return cli.Usage("--resume requires --joblog with the log of the previous run")
	case f.header != "" && f.header != ":":
		return cli.Usage("--header %q is not \":\"; use --header :", f.header)
	case f.null && f.delimiter != "":
		return cli.Usage("use --null or --delimiter, not both")
	}
	return nil
}

func parseJobs(text string) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || number[0] == '+' || percent && n == 0 {
		return 0, cli.Usage("--jobs %q is not a number of jobs such as 8, a percentage of the CPUs such as 200%%, or 0 for no limit", text)
	}
	if percent {
		n = int(max(min(float64(n)*float64(runtime.NumCPU())/100, math.MaxInt32), 1))
	}
	return n, nil
}

// parseRate reads a limit on starts. It ignores the queue limit, because a job waits as long as necessary.
func parseRate(flag, text string) (spec.Limit, error) {
	if text == "" {
		return spec.Limit{Kind: spec.Unlimited}, nil
	}
	l, err := spec.Parse(text)
	if err != nil {
		return l, cli.Usage("%s %q is not a rate such as 10/s%s", flag, text, cli.RateFault(text, err))
	}
	if l.Kind == spec.Blocked {
		return l, cli.Usage("%s %q is not a rate such as 10/s", flag, text)
	}
	if l.Kind != spec.Unlimited {
		l.Queue = math.MaxInt
	}
	if l.Kind == spec.TokenBucket && l.Burst == 0 { // starts are even, except that those of 10 ms come together
		l.Burst = int(max(1, min(float64(l.Permits)*float64(10*time.Millisecond)/float64(l.Per), 1e6)))
	}
	return l, nil
}

// run runs the command.
func (o options) run(ctx context.Context) error {
	if err := cli.CheckStdout("redirect it to /dev/null to discard the output"); err != nil {
		return err
	}
	r := newRunner(ctx, o)
	defer r.stop()
	if o.inputs.usesTerminal() {
		r.say("reading lines from the terminal; Ctrl-D ends them")
	}
	in, err := o.inputs.open(os.Stdin)
	if err != nil {
		return err
	}
	if err := r.understand(in.names); err != nil {
		return err
	}
	if o.dryRun {
		return r.dryRun(in.rows, os.Stdout)
	}
	switch {
	case o.halt.percent > 0:
		all, err := readRows(in.rows)
		if err != nil {
			return err
		}
		in.rows, r.tally.all = each(all), len(all)
	case o.bar:
		if r.tally.all, err = o.inputs.count(in); err != nil {
			return err
		}
	}
	if err := r.limit(); err != nil {
		return err
	}
	if err := r.openFiles(); err != nil {
		return err
	}
	defer r.closeFiles()
	if o.bar {
		r.showBar()
	}
	return r.watch(in.rows)
}
