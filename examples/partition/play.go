package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// tally is what became of a client's requests.
type tally struct {
	client           string
	allowed, refused int
}

// result is what became of a log.
type result struct {
	limit   spec.Limit
	odd     int
	clients []tally
	all     tally
	counts  partition.Counts
	peak    int // clients that had a limiter at once
}

// play sends the log's requests through a limiter for each client, at their times, but so
// much faster that it takes no longer than the settings say. The limit is made faster by as
// much.
func play(ctx context.Context, s settings, l accessLog) (result, error) {
	r := result{limit: s.limit, odd: l.odd}
	speed := max(1, float64(l.hits[len(l.hits)-1].at)/float64(s.took))
	limit := faster(s.limit, speed)
	overflow, err := limit.New("overflow")
	if err != nil {
		return r, err
	}
	clients, err := partition.New(partition.Options[hit, string]{
		Key:           func(h hit) string { return h.client },
		New:           limit.New, // named after the client
		MaxPartitions: s.most,
		Overflow:      overflow,
		IdleTimeout:   max(1, time.Duration(float64(time.Minute)/speed)),
	})
	if err != nil {
		return r, err
	}
	defer func() { _ = clients.Close() }()

	tallies := make(map[string]*tally)
	clock := pace{start: time.Now()}
	for _, h := range l.hits {
		if err := clock.until(ctx, time.Duration(float64(h.at)/speed)); err != nil {
			return r, err
		}
		t := tallies[h.client]
		if t == nil {
			t = &tally{client: h.client}
			tallies[h.client] = t
		}
		lease := clients.TryAcquire(h, 1)
		if lease.Acquired() {
			t.allowed++
			r.all.allowed++
		} else {
			t.refused++
			r.all.refused++
		}
		lease.Release() // of a concurrency limit: no request in a log takes any time
		r.peak = max(r.peak, clients.Len())
	}
	r.counts = clients.Counts()
	for _, t := range tallies {
		r.clients = append(r.clients, *t)
	}
	return r, nil
}

// faster returns the limit for a time that runs faster by a factor.
func faster(l spec.Limit, speed float64) spec.Limit {
	if l.Per > 0 {
		l.Per = max(1, time.Duration(float64(l.Per)/speed))
	}
	return l
}

// pace waits for instants after a start. It sleeps only when there is something to sleep for.
type pace struct {
	start time.Time
	timer *time.Timer
}

func (p *pace) until(ctx context.Context, at time.Duration) error {
	d := at - time.Since(p.start)
	if d < time.Millisecond {
		return ctx.Err()
	}
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		p.timer.Stop()
		return ctx.Err()
	}
}

// print writes the clients that were limited most.
func (r *result) print(out io.Writer, top int) {
	slices.SortFunc(r.clients, func(a, b tally) int {
		if a.refused != b.refused {
			return b.refused - a.refused
		}
		if a.allowed != b.allowed {
			return b.allowed - a.allowed
		}
		return strings.Compare(a.client, b.client)
	})
	_, _ = fmt.Fprintf(out, "%d requests of %d clients, each limited to %v: %d allowed, %d refused\n",
		r.all.allowed+r.all.refused, len(r.clients), r.limit, r.all.allowed, r.all.refused)
	if r.odd > 0 {
		_, _ = fmt.Fprintf(out, "%d lines are not in the combined log format\n", r.odd)
	}
	_, _ = fmt.Fprintf(out, "%d limiters at once at most; %d made, %d dropped, %d requests found no room\n\n",
		r.peak, r.counts.Created, r.counts.Dropped, r.counts.Overflowed)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "client\tallowed\trefused\t")
	for _, t := range r.clients[:min(top, len(r.clients))] {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t\n", t.client, t.allowed, t.refused)
	}
	_ = w.Flush()
}
