// Package run runs a command once for each line of input, with a limit on the jobs at once and on the starts in a second.
//
// The way of a job:
//
//	inputs -> row -> job -> [line of its key ->] admission -> process -> pumps -> streams -> [sequence ->] output -> joblog
//	                             ^                                  |
//	                             +---------- another try -----------+
//
// The rows are read by one goroutine, which waits for the admission of jobs without keys. Each job then has a goroutine of
// its own, and its process two more, the pumps. Locks are taken in this order: those of sequence, stream and output.
// What ends when, and what is waited for, is in lifecycle.
package run

import (
	"context"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

const examples = `  find . -name '*.flac' | sluice run -j4 flac -d {} -o /tmp/{/.}.wav
  sluice run --rate 10/s -j 32 curl -sf {} < urls.txt
  sluice run --rate-per-key 1/s --key {1} --colsep ' ' fetch {1} {2} < hosts-and-paths.txt
  sluice run -k --tag ping -c1 ::: alpha beta gamma
  sluice run --joblog log --retries 3 ./convert {} {.}.png ::: *.svg
  sluice run --joblog log --resume-failed ./convert {} {.}.png ::: *.svg
  sluice run --joblog log --retry-failed
  find . -name '*.log' | sluice run -X gzip -9`

// flags are what the user asks for.
type flags struct {
	jobs, rate, perKey, key    string
	keepOrder, tag, lineBuffer bool
	tagText, sign, delimiter   string
	dryRun, null, bar          bool
	header                     string
	link, shuffle, retryFailed bool
	fill, fillEach, ifAny      bool
	perJob, perJobEach, tries  int
	files                      []string
	colsep, halt, joblog       string
	resume, resumeFailed       bool
	delay, retryDelay, timeout cli.Duration
	load                       string
	results                    string
}

// New returns the command.
func New() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "run [flags] COMMAND [ARG...] [::: ARG...]...",
		Short: "Run a command for each line of input, with limits on how many at once and how often",
		Long: `Run runs COMMAND, without a shell, once for each line of standard input, or for each
argument behind :::, as xargs -P and GNU parallel do. Several ::: combine; :::+ goes
along with the list before it; behind :::: and ::::+ stand files of arguments. The
jobs read nothing.

{} is the line, {.} without its extension, {/} without its folders, {//} its folder,
{/.} both, {1} {2} ... the columns of --colsep or the lists, {-1} the last of them, {#}
the job's number, {%} its slot. A command without any of them gets the line appended.
Write sh -c '... "$1"' sh {} for pipes: what is put inside of the script is read as
a part of it.

Starts come evenly: a rate without a burst lets through at once what comes in 10 ms,
at least one job. With --rate-per-key up to 1,000 jobs whose keys have to wait stand
aside; input that is sorted by key should be shuffled, or more lines of one key than
that hold up the others.

Ctrl-C starts no more jobs and waits for the running ones; a second one ends them, and
when they are gone a third gives up output that nobody reads. Ctrl-Z stops them all.
SIGUSR1 lets one more job run at once, SIGUSR2 one fewer. The exit status is the
number of failed jobs, 101 for more than 100.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			if err := cli.NotEmpty(c.Flags(), "rate", "rate-per-key", "key", "load", "halt", "joblog", "results",
				"replace", "delimiter", "colsep", "header"); err != nil {
				return err
			}
			o, err := f.options(args)
			if err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f.define(c.Flags())
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
	s.SetNormalizeFunc(byOtherNames)
	s.StringVarP(&f.jobs, "jobs", "j", "100%", "run `N` at once, or N% of the processors; 0: no limit")
	s.StringVar(&f.rate, "rate", "", "start jobs no more often than `SPEC`: 10/s, \"100/m burst 5\"")
	s.Var(&f.delay, "delay", "wait `TIME` between two starts")
	s.StringVar(&f.perKey, "rate-per-key", "", "the same, for each --key: `SPEC`")
	s.StringVar(&f.key, "key", "", "what --rate-per-key counts by: {1}, {//}, ... (default {})")
	s.StringVar(&f.load, "load", "", "start none while the machine is busier than `PERCENT`")
	s.BoolVarP(&f.keepOrder, "keep-order", "k", false, "print in the order of the input")
	s.BoolVar(&f.tag, "tag", false, "print the input in front of each line")
	s.StringVar(&f.tagText, "tagstring", "", "print `TEXT` in front of each line; it may hold {}")
	s.BoolVar(&f.lineBuffer, "line-buffer", false, "print lines as they come, not each job's at its end")
	s.BoolVar(&f.dryRun, "dry-run", false, "print the commands, and run none")
	s.BoolVarP(&f.null, "null", "0", false, "lines of input end with a NUL")
	s.StringVarP(&f.delimiter, "delimiter", "d", "", "lines of input end with `C`: a character, or \\n, \\t, \\0")
	s.IntVarP(&f.perJob, "max-args", "n", 1, "give each job `N` lines; 0: one for each line, without it")
	s.BoolVarP(&f.fill, "fill", "m", false, "give each job as many lines as fit, and the last jobs equal shares")
	s.BoolVarP(&f.fillEach, "fill-each", "X", false, "the same; a word around {} is repeated for each line")
	s.StringArrayVarP(&f.files, "arg-file", "a", nil, "read the input from `FILE`; several combine")
	s.StringVar(&f.colsep, "colsep", "", "split lines into columns at this regular `EXPRESSION`")
	s.StringVar(&f.header, "header", "", "`:` takes the first line, or argument of each list, for names of columns: {NAME}")
	s.BoolVar(&f.link, "link", false, "go through all lists together, the shorter ones again and again")
	s.BoolVar(&f.shuffle, "shuf", false, "run the jobs in random order, once all of the input is read")
	s.StringVarP(&f.sign, "replace", "I", "", "use `TEXT` in place of {}")
	s.IntVar(&f.tries, "retries", 1, "try a job that fails up to `N` times in all")
	s.Var(&f.retryDelay, "retry-delay", "wait `TIME` before the next try")
	s.Var(&f.timeout, "timeout", "end a job that takes longer than `TIME`")
	s.StringVar(&f.halt, "halt", "", "stop early: `WHEN`,fail=N or N%, success=N or done=N, WHEN being now or soon")
	s.StringVar(&f.joblog, "joblog", "", "write a line for each job to `FILE`; +FILE appends to it")
	s.BoolVar(&f.resume, "resume", false, "skip jobs that are in the joblog")
	s.BoolVar(&f.resumeFailed, "resume-failed", false, "the same, but run failed jobs again")
	s.BoolVar(&f.retryFailed, "retry-failed", false, "run the failed jobs of the joblog again, by the commands in it")
	s.StringVar(&f.results, "results", "", "keep the output in files below `DIR`")
	s.BoolVar(&f.bar, "bar", false, "show how many jobs have ended, and the time left")
	s.StringVarP(&f.jobs, "max-procs", "P", "100%", "as --jobs")
	s.IntVarP(&f.perJobEach, "max-replace-args", "N", 0, "as --max-args; a word around {} is repeated for each line")
	s.IntVarP(&f.perJob, "max-lines", "L", 1, "as --max-args")
	s.BoolVarP(&f.ifAny, "no-run-if-empty", "r", false, "without input nothing runs anyway")
	for _, name := range []string{"max-procs", "max-replace-args", "max-lines", "no-run-if-empty"} {
		_ = s.MarkHidden(name)
	}
}

// otherNames are those that GNU parallel has for flags.
var otherNames = map[string]pflag.NormalizedName{
	"lb": "line-buffer", "linebuffer": "line-buffer", "line-buffered": "line-buffer",
	"dryrun": "dry-run", "keeporder": "keep-order", "eta": "bar", "progress": "bar", "tag-string": "tagstring",
}

func byOtherNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if n, ok := otherNames[name]; ok {
		return n
	}
	return pflag.NormalizedName(name)
}

// run runs the command.
func (o options) run(ctx context.Context) error {
	r := &runner{o: o, lifecycle: newLifecycle(ctx), output: output{out: os.Stdout, err: os.Stderr}}
	defer r.stop(nil)
	if o.inputs.usesTerminal() {
		r.say("reading lines from the terminal; Ctrl-D ends them")
	}
	in, err := o.open(os.Stdin)
	if err != nil {
		return err
	}
	r.understand(in.names)
	if o.fills() {
		in.rows, in.jobs = r.template.fill(in.rows, o.jobs), 0
	}
	if o.inputs.perJob == 0 && len(r.template.expand(row{}, 1, 1)) == 0 {
		return cli.Usage("--max-args 0 leaves nothing of the command %s", quote(o.command))
	}
	if o.shuffle || o.halt.percent > 0 {
		all, err := readRows(in.rows)
		if err != nil {
			return err
		}
		if o.shuffle {
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		in.rows, in.jobs = each(all), len(all)
	}
	if o.dryRun {
		return r.dryRun(in.rows, os.Stdout)
	}
	if r.admission, err = newAdmission(o); err != nil {
		return err
	}
	if err := r.openFiles(); err != nil {
		return err
	}
	defer r.closeFiles()
	if o.keepOrder {
		r.order = newSequence()
	}
	r.tally.all = in.jobs
	r.output.failed = r.fault
	if o.bar {
		r.showBar()
	}
	return r.watch(in.rows)
}
