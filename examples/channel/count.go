package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// levels are the log levels that are counted, and a name for lines without one.
var levels = []string{"ERROR", "WARN", "INFO", "DEBUG", "other"}

// tally is what the consumers counted.
type tally struct {
	lines, bytes int
	byLevel      map[string]int
	peak         int // the most bytes seen in the queue
}

// count reads each file with a producer and counts their lines with consumers.
func count(ctx context.Context, s settings, limiter *core.ConcurrencyLimiter) (*tally, error) {
	lines, err := channel.New(channel.Options[[]byte]{
		Limiter: limiter,
		Cost:    func(line []byte) int { return len(line) },
	})
	if err != nil {
		return nil, err
	}
	total := &tally{byLevel: make(map[string]int)}
	var mu sync.Mutex
	var producers, consumers sync.WaitGroup
	for _, file := range s.files {
		producers.Go(func() {
			if err := send(ctx, file, lines); err != nil {
				// From here on, the other producers' sends fail, and the receivers stop.
				_ = lines.CloseWithError(err)
			}
		})
	}
	failures := make(chan error, s.consumers)
	for range s.consumers {
		consumers.Go(func() {
			t, err := consume(ctx, s, limiter, lines)
			mu.Lock()
			defer mu.Unlock()
			total.add(t)
			if !errors.Is(err, channel.ErrClosed) {
				failures <- err
			}
		})
	}
	producers.Wait()
	_ = lines.Close()
	consumers.Wait()
	close(failures)
	return total, <-failures
}

// consume counts lines until the channel is closed and empty. A line's permits are
// released after it was counted, so the budget also covers the lines being counted.
func consume(ctx context.Context, s settings, limiter core.Limiter, lines *channel.LimitedChannel[[]byte]) (tally, error) {
	t := tally{byLevel: make(map[string]int)}
	for {
		line, lease, err := lines.ReceiveLease(ctx)
		if err != nil {
			return t, err
		}
		t.peak = max(t.peak, s.budget-limiter.Available())
		t.lines++
		t.bytes += len(line)
		t.byLevel[level(line)]++
		lease.Release()
		if s.pause > 0 && t.lines%1000 == 0 {
			select {
			case <-time.After(s.pause):
			case <-ctx.Done():
			}
		}
	}
}

func level(line []byte) string {
	for _, l := range levels {
		if bytes.Contains(line, []byte(l)) {
			return l
		}
	}
	return "other"
}

func (t *tally) add(u tally) {
	t.lines += u.lines
	t.bytes += u.bytes
	t.peak = max(t.peak, u.peak)
	for l, n := range u.byLevel {
		t.byLevel[l] += n
	}
}

// send sends the lines of a file, each with its line feed.
func send(ctx context.Context, file string, lines *channel.LimitedChannel[[]byte]) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			if err := lines.Send(ctx, line); err != nil {
				return fmt.Errorf("a line of %d bytes of %s: %w", len(line), file, err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
