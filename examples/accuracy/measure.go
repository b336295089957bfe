package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// figures are what one writer shows, as parts of its rate.
type figures struct {
	steady  float64       // error from warm on
	first   float64       // error of the first second
	busiest float64       // most bytes in any 10 ms, as a multiple of what the rate has in them
	gap     time.Duration // longest time without a write, from warm on
}

// warm is when the steady state has begun.
const warm = 200 * time.Millisecond

// log is a sink that notes when how many bytes came.
type log struct {
	begun  time.Time
	events []event
}

type event struct {
	at    time.Duration
	total int // bytes up to now
}

func (l *log) Write(p []byte) (int, error) {
	total := len(p)
	if n := len(l.events); n > 0 {
		total += l.events[n-1].total
	}
	l.events = append(l.events, event{time.Since(l.begun), total})
	return len(p), nil
}

// measure writes at the rate for the time.
func measure(ctx context.Context, rate, size int, span time.Duration) (figures, error) {
	limiter, err := core.NewTokenBucket(ioreader.PerSecond(rate))
	if err != nil {
		return figures{}, err
	}
	sink := &log{events: make([]event, 0, 1<<20)}
	p := make([]byte, size)
	sink.begun = time.Now()
	if err := writeUntil(ctx, sink, limiter, p, span); err != nil {
		return figures{}, err
	}
	return sink.figures(float64(rate)), nil
}

// writeUntil writes p again and again until the time is over.
func writeUntil(ctx context.Context, to io.Writer, l core.Limiter, p []byte, span time.Duration) error {
	timed, cancel := context.WithCancel(ctx)
	defer cancel()
	// A timer of its own: the limiter would refuse what outlasts a deadline.
	defer time.AfterFunc(span, cancel).Stop()
	w := ioreader.NewWriter(timed, to, l)
	defer w.Close()
	for {
		if _, err := w.Write(p); err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() == nil {
				return nil
			}
			return err
		}
	}
}

func (l *log) figures(rate float64) figures {
	var f figures
	var from, to event
	first := 0
	for i, e := range l.events {
		if e.at <= time.Second {
			f.first = float64(e.total)/rate - 1
		}
		if e.at >= warm && from.at == 0 {
			from = e
		}
		if from.at > 0 && i > 0 {
			f.gap = max(f.gap, e.at-to.at)
		}
		to = e
		for e.at-l.events[first].at >= 10*time.Millisecond {
			first++
		}
		before := 0
		if first > 0 {
			before = l.events[first-1].total
		}
		f.busiest = max(f.busiest, float64(l.events[i].total-before)/(rate/100))
	}
	// From the end of one write to the end of another, so that none is counted in part.
	f.steady = float64(to.total-from.total)/(to.at-from.at).Seconds()/rate - 1
	return f
}
