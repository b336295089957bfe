// Loadtest puts more load on a server than it can handle, without a limit and with
// several limits, and shows the results of its clients.
package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/examples/internal/program"
)

const text = `loadtest brings a server under load that it can't take, with and without limits

usage: loadtest [flags]

The server's backend works on -slots requests at a time, and each takes -work: that is its
capacity. Requests arrive at random, at a rate, whether answers come or not (an open
model); a client waits for -patience and then goes. The backend does not notice.

What counts is goodput: answers that came in time. Times are measured from when a
request was to be sent, not from when it was (no coordinated omission).

    go run ./examples/loadtest             a minute and a half
    go run ./examples/loadtest -short      too short for figures`

func main() { program.Main(text, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	t := test{out: s.Out}
	flags.IntVar(&t.slots, "slots", 4, "requests that the backend works on at a time")
	flags.DurationVar(&t.work, "work", 20*time.Millisecond, "how long one takes")
	flags.DurationVar(&t.patience, "patience", 500*time.Millisecond, "how long a client waits")
	flags.DurationVar(&t.settling, "settling", time.Second, "how long each load lasts before what counts")
	flags.DurationVar(&t.time, "time", 4*time.Second, "how long each load lasts then")
	short := flags.Bool("short", false, "half a second of each load")
	return func(ctx context.Context, args []string) error {
		if err := program.NoArguments(args); err != nil {
			return err
		}
		if t.slots < 1 || t.work <= 0 || t.patience <= 0 || t.time <= 0 || t.settling < 0 {
			return program.Usage("-slots, -work, -patience and -time want more than 0, -settling at least 0")
		}
		if *short {
			t.settling, t.time = 0, time.Second/2
		}
		return t.run(ctx)
	}
}

// loads are multiples of the capacity.
var loads = []float64{0.5, 1, 2, 5}

// result holds the results of one limit's clients under one load.
type result struct {
	limit    string
	load     float64
	offered  float64 // per second, as are the next three
	good     float64
	rejected float64
	late     float64 // no response in time
	p50      time.Duration
	p99      time.Duration // 99th percentile of the responses in time
}

// run puts each load on each limit and prints a table.
func (t test) run(ctx context.Context) error {
	_, _ = fmt.Fprintf(t.out, "capacity %.0f a second, patience %v\n\n", t.capacity(), t.patience)
	header := fmt.Sprintf("%-25s %5s %9s %9s %9s %9s %9s %9s", "limit", "load", "offered/s", "good/s", "rejected/s", "late/s", "p50 ms", "p99 ms")
	_, _ = fmt.Fprintf(t.out, "%s\n%s\n", header, strings.Repeat("-", len(header)))
	for _, c := range t.contenders() {
		for _, load := range loads {
			h, stop, err := t.handler(c)
			if err != nil {
				return err
			}
			ask, closeServer := serve(h, stop)
			r, err := t.play(ctx, ask, c.name, load)
			closeServer()
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(t.out, "%-25s %5.1f %9.0f %9.0f %9.0f %9.0f %9.0f %9.0f\n",
				r.limit, r.load, r.offered, r.good, r.rejected, r.late, ms(r.p50), ms(r.p99))
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
