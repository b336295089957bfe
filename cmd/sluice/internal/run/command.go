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
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

const examples = `  find . -name '*.flac' | sluice run -j4 flac -d {} -o /tmp/{/.}.wav
  sluice run --limit 10/s -j 32 curl -sf {} < urls.txt
  sluice run --limit-per-key 1/s --key {1} --colsep ' ' fetch {1} {2} < hosts-and-paths.txt
  sluice run -k --tag ping -c1 ::: alpha beta gamma
  sluice run --joblog log --retries 3 ./convert {} {.}.png ::: *.svg
  sluice run --joblog log --resume-failed ./convert {} {.}.png ::: *.svg`

// options are what the user wrote.
type options struct {
	command              []string
	inputs               inputs
	jobs                 int         // 0: no limit
	limits, perKey       spec.Limits // on the starts of jobs
	key                  string
	keepOrder, tag       bool
	lineBuffer           bool
	dryRun, null, bar    bool
	tries                int
	retryDelay, timeout  cli.Duration
	halt                 halt
	joblog               string
	resume, resumeFailed bool
}

// New returns the command.
func New() *cobra.Command {
	o := options{inputs: inputs{end: '\n'}, jobs: runtime.NumCPU()}
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

Jobs start at even intervals. Add a burst to a limit to let several start together. With
--limit-per-key, up to 1,000 jobs wait for their keys while jobs of other keys start. If more
jobs of one key wait, they block the other keys, so shuffle input that is sorted by key.

After Ctrl-C, run starts no more jobs and waits for the running ones. A second Ctrl-C ends
them. If their output is blocked, a third Ctrl-C discards it. Ctrl-Z stops all jobs.

At the end, run prints how many jobs succeeded and failed, if one has failed or stderr is a
terminal. The exit status is the number of failed jobs, 101 for more than 100; 127 if
COMMAND does not exist, and 126 if it cannot be run. "sluice help limits" explains a SPEC.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.parse(c.Flags(), args); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	o.define(c.Flags())
	for flag, values := range map[string][]string{
		"key":  {"{}", "{1}", "{2}", "{.}", "{/}", "{//}", "{/.}"},
		"halt": {"never", "now,fail=1", "soon,fail=1", "now,fail=10%", "soon,fail=10%"},
	} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return c
}

func (o *options) define(s *pflag.FlagSet) {
	s.SortFlags = false
	s.SetInterspersed(false) // what follows COMMAND is its own
	s.FuncP("jobs", "j", "run `N` jobs at a time, or N% of the CPUs; 0 means no limit (default: 100%)", parsed(&o.jobs, parseJobs))
	s.Func("limit", "start jobs at most at the rate `SPEC`: 10/s, \"100/m burst 5\", \"10/s, 1000/h\" (default: no limit)", parsed(&o.limits, parseRate))
	s.Func("limit-per-key", "start the jobs of each key at most at the rate `SPEC`", parsed(&o.perKey, parseLimits))
	s.StringVar(&o.key, "key", "{}", "use `TEXT` as the key for --limit-per-key: {1}, {//}, ...; {} is the whole line")
	s.BoolVarP(&o.keepOrder, "keep-order", "k", false, "print output in the order of the input")
	s.BoolVar(&o.tag, "tag", false, "print the input in front of each line of output")
	s.BoolVar(&o.lineBuffer, "line-buffer", false, "print output line by line instead of job by job")
	s.BoolVar(&o.dryRun, "dry-run", false, "print the commands instead of running them")
	s.BoolVarP(&o.null, "null", "0", false, "split the input at NUL instead of newlines")
	s.FuncP("delimiter", "d", "split the input at `C`: a character, or \\n, \\t, \\0", parsed(&o.inputs.end, parseDelimiter))
	s.IntVarP(&o.inputs.perJob, "max-args", "n", 1, "give each job `N` lines, at least 1")
	s.FuncP("arg-file", "a", "read the input from `FILE`; several give all combinations", func(name string) error {
		if name == "" {
			return errors.New("is empty")
		}
		o.inputs.lists = append(o.inputs.lists, list{file: name})
		return nil
	})
	s.Func("colsep", "split lines into columns at this regular `EXPRESSION`", parsed(&o.inputs.columns, parseExpression))
	s.Func("header", "use the first line, or the first argument of each list, as column names for {NAME}; the value is always `:`",
		func(text string) error {
			if o.inputs.header = text == ":"; !o.inputs.header {
				return errors.New(`is not ":", the only value`)
			}
			return nil
		})
	s.IntVar(&o.tries, "retries", 1, "try a failing job up to `N` times in all, at least 1")
	s.Var(&o.retryDelay, "retry-delay", "wait `TIME` before the next try: 250ms, 1h30m, or a number of seconds (default: no time)")
	s.Var(&o.timeout, "timeout", "end a job that takes longer than `TIME` (default: no limit)")
	s.Func("halt", "stop early: `WHEN`,fail=N or N%; WHEN is now or soon", parsed(&o.halt, parseHalt))
	s.StringVar(&o.joblog, "joblog", "", "write a line for each job to `FILE`; +FILE appends to it")
	s.BoolVar(&o.resume, "resume", false, "skip jobs that are in the joblog")
	s.BoolVar(&o.resumeFailed, "resume-failed", false, "skip jobs that succeeded according to the joblog")
	s.BoolVar(&o.bar, "bar", false, "read all input first, and show how many jobs have ended, and the time left")
}

// parsed returns the function of a flag that sets v. The errors of parse follow the flag and its value.
func parsed[T any](v *T, parse func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		if text == "" {
			return errors.New("is empty")
		}
		*v, err = parse(text)
		return err
	}
}

// parse reads the arguments, and reports flags that cannot be used together and values that are out of range.
func (o *options) parse(flags *pflag.FlagSet, args []string) (err error) {
	var lists []list
	if o.command, lists, err = splitLists(args); err != nil {
		return err
	}
	in := &o.inputs
	if o.null {
		in.end = 0
	}
	if in.lists = append(in.lists, lists...); len(in.lists) == 0 {
		in.lists = []list{{file: "-"}}
	}
	switch {
	case len(o.command) == 0:
		return cli.Usage("no command")
	case in.perJob < 1:
		return cli.Usage("--max-args %d is too small; use at least 1", in.perJob)
	case in.perJob > 1 && len(in.lists) > 1:
		return cli.Usage("--max-args does not work with several lists of arguments")
	case o.tries < 1:
		return cli.Usage("--retries %d is too small; use at least 1, which is the first try", o.tries)
	case o.retryDelay > 0 && !flags.Changed("retries"):
		return cli.Usage("--retry-delay requires --retries; without it no job is tried again")
	case flags.Changed("key") && !flags.Changed("limit-per-key"):
		return cli.Usage("--key requires --limit-per-key")
	case (o.resume || o.resumeFailed) && o.joblog == "":
		return cli.Usage("--resume requires --joblog with the log of the previous run")
	}
	return nil
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
		return 0, errors.New(`is not a single byte such as , or \n, \t, \0, \x1f`)
	}
	return short[0], nil
}

func parseExpression(text string) (*regexp.Regexp, error) {
	e, err := regexp.Compile(text)
	if err != nil {
		err = fmt.Errorf("is not a regular expression: %w", err)
	}
	return e, err
}

func parseJobs(text string) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || number[0] == '+' || percent && n == 0 {
		return 0, errors.New("is not a number of jobs such as 8, a percentage of the CPUs such as 200%, or 0 for no limit")
	}
	if percent {
		n = int(max(min(float64(n)*float64(runtime.NumCPU())/100, math.MaxInt32), 1))
	}
	return n, nil
}

func parseRate(text string) (spec.Limits, error) {
	limits, err := parseLimits(text)
	if err == nil && slices.ContainsFunc(limits, func(l spec.Limit) bool { return l.Kind == spec.Concurrency }) {
		err = errors.New("is not a rate such as 10/s; use --jobs to limit the jobs that run at a time")
	}
	return limits, err
}

// parseLimits reads limits on starts.
func parseLimits(text string) (spec.Limits, error) {
	limits, err := spec.ParseLimits(text)
	switch {
	case err != nil:
		return nil, errors.New("is not a rate such as 10/s" + cli.RateFault(text, err))
	case slices.ContainsFunc(limits, func(l spec.Limit) bool { return l.Kind == spec.Blocked || l.Kind == spec.Paused }):
		return nil, errors.New("is not a rate such as 10/s")
	}
	return cli.Patient(limits), cli.NoBytes(limits, "jobs")
}

// run runs the command.
func (o options) run(ctx context.Context) error {
	if err := cli.CheckStdout("open /dev/null for writing, as > does, to discard the output"); err != nil {
		return err
	}
	r := newRunner(ctx, o)
	defer r.stop(nil)
	if o.inputs.usesTerminal() {
		r.output.say("reading lines from the terminal; Ctrl-D ends them")
	}
	rs, names, err := o.inputs.open()
	if err != nil {
		return err
	}
	if err := r.understand(names); err != nil {
		return err
	}
	if o.dryRun {
		return r.dryRun(rs, os.Stdout)
	}
	bar := o.bar && cli.IsTerminal(os.Stderr)
	if bar || o.halt.percent {
		all, err := collect(rs)
		if err != nil {
			return err
		}
		rs, r.all = each(all), len(all)
	}
	if err := r.limit(); err != nil {
		return err
	}
	if err := r.openFiles(); err != nil {
		return err
	}
	if bar {
		r.showBar()
	}
	return r.watch(rs)
}
