package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// part is a load on the gateways.
type part struct {
	clients int
	time    time.Duration
	out     io.Writer
}

// play runs the load and prints its results.
func (p part) play(ctx context.Context, title string, limiter newLimiter, gateways int) error {
	rivals, err := newRivals()
	if err != nil {
		return err
	}
	used := new(ledger)
	urls, stop, err := start(limiter, gateways, used)
	if err != nil {
		return err
	}
	l := load{clients: p.clients, time: p.time, gateways: urls, rivals: rivals}
	passed, rejected, err := l.run(ctx)
	if failed := stop(); err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(p.out)
	table := tabwriter.NewWriter(p.out, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, passed, rejected int, used *ledger) (most int) {
		all, most := used.sums()
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%+d\t\n", name, passed, rejected, all, most, most-tokensPerMinute)
		return most
	}
	_, _ = fmt.Fprintf(table, "%s\tlet through\trejected\ttokens\tmost of an account\tbeyond its limit\t\n", title)
	most := row("estimate and settle", passed, rejected, used)
	for _, r := range rivals {
		row(r.name, r.passed, r.rejected, &r.used)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if bound := tokensPerMinute + p.inFlight(); most > bound {
		return fmt.Errorf("an account used %d tokens, want at most %d", most, bound)
	}
	return nil
}

// inFlight returns how much the concurrent requests of an account can cost beyond their estimates.
func (p part) inFlight() int {
	clients := (p.clients + accounts - 1) / accounts
	return clients * (maxAnswer - estimate(0, maxAnswer))
}
