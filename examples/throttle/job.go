package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// job copies the streams, all at once, under one limiter.
type job struct {
	limit   rate
	streams []*stream
	screen  io.Writer // the progress line
	summary io.Writer // nil: none

	mu   sync.Mutex // guards what follows
	now  map[*stream]ioreader.Progress
	line int // length of the progress line on the screen
	over bool
}

// stopGrace is how long ctrl-C waits for a copy that hangs in a Read.
const stopGrace = 100 * time.Millisecond

func (j *job) run(ctx context.Context) error {
	bucket := ioreader.PerSecond(j.limit.bytes)
	limiter, err := core.NewTokenBucket(bucket)
	if err != nil {
		return err
	}
	j.now = make(map[*stream]ioreader.Progress)
	begun := time.Now()
	errs := make(chan error, len(j.streams))
	for _, s := range j.streams {
		go func() { errs <- j.copy(ctx, s, limiter) }()
	}
	var failed []error
	for range j.streams {
		select {
		case err := <-errs:
			failed = append(failed, err)
			continue
		case <-ctx.Done():
		}
		select {
		case err := <-errs:
			failed = append(failed, err)
		case <-time.After(stopGrace):
			failed = append(failed, ctx.Err())
		}
	}
	j.conclude(time.Since(begun), bucket.TokenLimit, ctx.Err() != nil)
	return errors.Join(failed...)
}

// copy copies one stream. An error of one stops no other.
func (j *job) copy(ctx context.Context, s *stream, l core.Limiter) error {
	n, err := ioreader.Copy(ctx, s.dst, s.src, ioreader.CopyOptions{
		Limiter: l, Total: s.size,
		OnProgress: func(p ioreader.Progress) {
			s.copied.Store(p.Bytes)
			j.show(s, p)
		},
	})
	s.copied.Store(n)
	if err != nil {
		return errors.Join(err, s.close())
	}
	return s.close()
}

// show writes the progress of all streams over the line that is there.
func (j *job) show(s *stream, p ioreader.Progress) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return
	}
	j.now[s] = p
	var sum ioreader.Progress
	known := true
	for _, s := range j.streams {
		p := j.now[s]
		sum.Bytes += p.Bytes
		sum.Total += s.size
		known = known && s.size > 0
		if p.Bytes < s.size || s.size == 0 {
			sum.Rate += p.Rate
		}
	}
	text := fmt.Sprintf("%s  %s/s", j.limit.show(float64(sum.Bytes)), j.limit.show(sum.Rate))
	if known {
		text += fmt.Sprintf("  %.0f %%", 100*float64(sum.Bytes)/float64(sum.Total))
		if sum.Rate > 0 {
			left := time.Duration(float64(sum.Total-sum.Bytes) / sum.Rate * float64(time.Second))
			text += fmt.Sprintf("  %v left", max(left, 0).Round(time.Second))
		}
	}
	j.write(text)
}

// write puts text in the place of the line on the screen.
func (j *job) write(text string) {
	fmt.Fprintf(j.screen, "\r%s%s", text, strings.Repeat(" ", max(j.line-len(text), 0)))
	j.line = len(text)
}

// conclude clears the line and writes what was done.
func (j *job) conclude(took time.Duration, burst int, stopped bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over = true; j.line > 0 {
		j.write("")
		fmt.Fprint(j.screen, "\r")
	}
	if j.summary == nil {
		return
	}
	var bytes, size int64
	for _, s := range j.streams {
		bytes += s.copied.Load()
		size += s.size
		if len(j.streams) > 1 {
			fmt.Fprintf(j.summary, "%s: %d bytes\n", s.name, s.copied.Load())
		}
	}
	if stopped {
		of := ""
		if size > 0 {
			of = fmt.Sprintf(" of %d", size)
		}
		fmt.Fprintf(j.summary, "interrupted after %d%s bytes\n", bytes, of)
	}
	fmt.Fprintln(j.summary, summarize(j.limit, bytes, took, burst))
}

// summarize says how fast it was, and how far off the rate that was asked for.
func summarize(limit rate, bytes int64, took time.Duration, burst int) string {
	text := fmt.Sprintf("%d bytes in %.3f s", bytes, took.Seconds())
	if bytes <= int64(burst) {
		return text + fmt.Sprintf(": no more than the first burst of %d bytes, too few to measure %v", burst, limit)
	}
	achieved := float64(bytes) / took.Seconds()
	off := 100 * (achieved/float64(limit.bytes) - 1)
	return text + fmt.Sprintf(": %s/s, %+.2f %% of the %v asked for", limit.show(achieved), off, limit)
}
