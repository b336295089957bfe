// Package run runs a command once for each line of input: so many at once, and so many starts per second.
package run

import (
	"context"
	"math"
	"os"
	"regexp"
	"runtime"
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

// flags are what the user asks for.
type flags struct {
	jobs, rate, perKey, key    string
	keepOrder, tag, lineBuffer bool
	dryRun, null, bar          bool
	perJob, tries              int
	files                      []string
	colsep, halt, joblog       string
	resume, resumeFailed       bool
	delay, timeout             cli.Duration
	load                       string
	results                    string
}

// New returns the command.
func New() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "run [flags] COMMAND [ARG...] [::: ARG...]...",
		Short: "Run a command for each line of input, at a rate and so many at once",
		Long: `Run runs COMMAND, without a shell, once for each line of standard input, or for each
argument behind :::, as xargs -P and GNU parallel do. Several ::: combine; :::+ goes
along with the list before it; behind :::: and ::::+ stand files of arguments. The
jobs read nothing.

{} is the line, {.} without its extension, {/} without its folders, {//} its folder,
{/.} both, {1} {2} ... the columns of --colsep or the lists, {-1} the last of them, {#}
the job's number, {%} its slot. A command without any of them gets the line appended.

Ctrl-C starts no more jobs and waits for those that run; a second one ends them.
SIGUSR1 lets one more job run at once, SIGUSR2 one fewer. The exit status is the
number of failed jobs, 101 for more than 100.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			if err := cli.NotEmpty(c.Flags(), "rate", "rate-per-key", "key", "load", "halt", "joblog", "results"); err != nil {
				return err
			}
			o, err := f.options(args)
			if err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.SetInterspersed(false) // what follows COMMAND is its own
	s.SetNormalizeFunc(byOtherNames)
	s.StringVarP(&f.jobs, "jobs", "j", "100%", "run `N` at once, or N% of the processors; 0: no limit")
	s.StringVar(&f.rate, "rate", "", "start as many as `SPEC` says: 10/s, \"100/m burst 5\"")
	s.StringVar(&f.perKey, "rate-per-key", "", "the same, for each --key: `SPEC`")
	s.StringVar(&f.key, "key", "", "what --rate-per-key counts by: {1}, {//}, ... (default {})")
	s.StringVar(&f.load, "load", "", "start none while the machine is busier than `PERCENT`")
	s.BoolVarP(&f.keepOrder, "keep-order", "k", false, "print in the order of the input")
	s.BoolVar(&f.tag, "tag", false, "print the input in front of each line")
	s.BoolVar(&f.lineBuffer, "line-buffer", false, "print lines as they come, not each job's at its end")
	s.BoolVar(&f.dryRun, "dry-run", false, "print the commands, and run none")
	s.BoolVarP(&f.null, "null", "0", false, "lines of input end with a NUL")
	s.IntVarP(&f.perJob, "max-args", "n", 1, "give each job `N` lines; 0: one for each line, without it")
	s.StringArrayVarP(&f.files, "arg-file", "a", nil, "read the input from `FILE`; several combine")
	s.StringVar(&f.colsep, "colsep", "", "split lines into columns at this regular `EXPRESSION`")
	s.IntVar(&f.tries, "retries", 1, "try a job that fails up to `N` times in all")
	s.Var(&f.delay, "retry-delay", "wait `TIME` before the next try")
	s.Var(&f.timeout, "timeout", "end a job that takes longer than `TIME`")
	s.StringVar(&f.halt, "halt", "", "stop after failures: `WHEN`,fail=N or N%, WHEN being now or soon")
	s.StringVar(&f.joblog, "joblog", "", "write a line for each job to `FILE`")
	s.BoolVar(&f.resume, "resume", false, "leave out jobs that are in the joblog")
	s.BoolVar(&f.resumeFailed, "resume-failed", false, "the same, but run those again that failed")
	s.StringVar(&f.results, "results", "", "keep the output in files below `DIR`")
	s.BoolVar(&f.bar, "bar", false, "show how many jobs have ended")
	s.StringVarP(&f.jobs, "max-procs", "P", "100%", "as --jobs")
	s.IntVarP(&f.perJob, "max-replace-args", "N", 1, "as --max-args")
	_, _ = s.MarkHidden("max-procs"), s.MarkHidden("max-replace-args")
	return c
}

// otherNames are those that GNU parallel has for flags.
var otherNames = map[string]pflag.NormalizedName{
	"lb": "line-buffer", "linebuffer": "line-buffer", "line-buffered": "line-buffer",
	"dryrun": "dry-run", "keeporder": "keep-order",
}

func byOtherNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if n, ok := otherNames[name]; ok {
		return n
	}
	return pflag.NormalizedName(name)
}

// options are the flags, understood.
type options struct {
	flags
	command []string
	inputs  inputs
	jobs    int // 0: no limit
	rate    spec.Limit
	perKey  spec.Limit // Unlimited: none
	key     []token
	halt    halt
	load    float64 // percent; 0: not asked
	delay   time.Duration
	timeout time.Duration
}

func (f *flags) options(args []string) (o options, err error) {
	o = options{flags: *f, delay: time.Duration(f.delay), timeout: time.Duration(f.timeout)}
	o.inputs = inputs{end: '\n', perJob: f.perJob}
	files := make([]list, 0, len(f.files))
	for _, name := range f.files {
		files = append(files, list{file: name})
	}
	if o.command, o.inputs.lists, err = splitLists(args, files); err != nil {
		return o, err
	}
	if len(o.inputs.lists) == 0 {
		o.inputs.lists = []list{{file: "-"}}
	}
	if f.null {
		o.inputs.end = 0
	}
	if len(o.command) == 0 {
		return o, cli.Usage("no command")
	}
	if err := f.check(o.inputs.lists); err != nil {
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
	if f.key == "" {
		f.key = "{}"
	}
	o.key = parseWord(f.key)
	if o.halt, err = parseHalt(f.halt); err != nil {
		return o, err
	}
	if f.colsep != "" {
		if o.inputs.columns, err = regexp.Compile(f.colsep); err != nil {
			return o, cli.Usage("--colsep %q: %w", f.colsep, err)
		}
	}
	if f.load != "" {
		o.load, err = strconv.ParseFloat(strings.TrimSuffix(f.load, "%"), 64)
		if err != nil || !(o.load > 0 && o.load <= 100) {
			return o, cli.Usage("--load %q, want a percentage above 0, at most 100", f.load)
		}
	}
	return o, nil
}

// check finds flags that do not go with each other.
func (f *flags) check(lists []list) error {
	switch {
	case f.perJob < 0:
		return cli.Usage("--max-args %d, want at least 0", f.perJob)
	case f.perJob > 1 && len(lists) > 1:
		return cli.Usage("--max-args with several lists of arguments")
	case f.perJob == 0 && f.results != "":
		return cli.Usage("--results with --max-args 0: the jobs have nothing to tell their folders by")
	case f.tries < 1:
		return cli.Usage("--retries %d, want at least 1, which is the first try", f.tries)
	case f.key != "" && f.perKey == "":
		return cli.Usage("--key without --rate-per-key")
	case (f.resume || f.resumeFailed) && f.joblog == "":
		return cli.Usage("--resume needs the --joblog of the run before")
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

func (o options) run(ctx context.Context) (err error) {
	rs, err := o.inputs.rows(os.Stdin)
	if err != nil {
		return err
	}
	r := &runner{o: o, template: parseTemplate(o.command), running: newRunning(), output: output{out: os.Stdout, err: os.Stderr}}
	if o.dryRun {
		return r.dryRun(rs, os.Stdout)
	}
	if r.admission, err = newAdmission(o); err != nil {
		return err
	}
	if o.perKey.Kind != spec.Unlimited {
		if r.lanes, err = newLanes(o.perKey); err != nil {
			return err
		}
	}
	if o.joblog != "" {
		if o.resume || o.resumeFailed {
			if r.skip, err = readJoblog(o.joblog, o.resumeFailed); err != nil {
				return err
			}
		}
		if r.log, err = openJoblog(o.joblog, r.skip != nil); err != nil {
			return err
		}
		defer func() { _ = r.log.f.Close() }()
	}
	if r.null, err = os.Open(os.DevNull); err != nil {
		return err
	}
	defer func() { _ = r.null.Close() }()
	if o.keepOrder {
		r.order = newSequence()
	}
	if o.halt.percent > 0 {
		if rs, r.all, err = counted(rs); err != nil {
			return err
		}
	}
	r.output.failed = r.fault
	if o.bar {
		r.bar = newBar(r.all)
		if r.bar.progress != nil {
			r.output.err = r.bar.progress
		}
	}
	r.stopping, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	return r.watch(rs) //nolint:contextcheck // the runner keeps its own
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
