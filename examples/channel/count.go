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

// count reads the file with producers and counts its lines with consumers.
func count(ctx context.Context, s settings, limiter *core.ConcurrencyLimiter) (*tally, error) {
	lines, err := channel.New(channel.Options[[]byte]{
		Limiter: limiter,
		Permits: func(line []byte) int { return len(line) },
	})
	if err != nil {
		return nil, err
	}
	parts, err := split(s.file, s.producers)
	if err != nil {
		return nil, err
	}
	total := &tally{byLevel: make(map[string]int)}
	var mu sync.Mutex
	var producers, consumers sync.WaitGroup
	for _, p := range parts {
		producers.Go(func() {
			if err := p.send(ctx, s.file, lines); err != nil {
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

// part is a range of bytes in the file. It has the lines that start in the range.
type part struct{ start, end int64 }

func split(file string, n int) ([]part, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory; -file wants a log file", file)
	}
	parts := make([]part, n)
	for i := range parts {
		parts[i] = part{info.Size() * int64(i) / int64(n), info.Size() * int64(i+1) / int64(n)}
	}
	return parts, nil
}

// send sends the lines of the part, each with its line feed.
func (p part) send(ctx context.Context, file string, lines *channel.LimitedChannel[[]byte]) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	at := p.start
	if at > 0 {
		at-- // a line that starts at p.start has a line feed before it
	}
	if _, err = f.Seek(at, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f, 32<<10)
	if p.start > 0 {
		rest, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			at += int64(len(rest))
			rest, err = r.ReadSlice('\n')
		}
		at += int64(len(rest))
	}
	for at < p.end {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			if err := lines.Send(ctx, line); err != nil {
				return fmt.Errorf("a line of %d bytes at offset %d of %s: %w", len(line), at, file, err)
			}
		}
		at += int64(len(line))
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}
