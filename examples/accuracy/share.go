package main

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// count is a sink that counts.
type count int

func (c *count) Write(p []byte) (int, error) {
	*c += count(len(p))
	return len(p), nil
}

// share has writers of these sizes share a limiter, and returns the part that each had.
func share(ctx context.Context, rate int, sizes []int, span time.Duration) ([]float64, error) {
	limiter, err := core.NewTokenBucket(ioreader.PerSecond(rate))
	if err != nil {
		return nil, err
	}
	sinks, errs := make([]count, len(sizes)), make([]error, len(sizes))
	var writers sync.WaitGroup
	for i, size := range sizes {
		writers.Go(func() {
			errs[i] = writeUntil(ctx, &sinks[i], limiter, make([]byte, size), span)
		})
	}
	writers.Wait()
	total := 0.0
	for i := range sinks {
		if errs[i] != nil {
			return nil, errs[i]
		}
		total += float64(sinks[i])
	}
	parts := make([]float64, len(sinks))
	for i, n := range sinks {
		parts[i] = float64(n) / total
	}
	return parts, nil
}
