// Package before uploads what a producer makes with channels, errgroup and x/time/rate.
package before

import (
	"bytes"
	"context"
	"io"
	"iter"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

const (
	bandwidth = 1 << 20  // bytes per second
	burst     = 32 << 10 // bytes
)

// Upload uploads parts, 4 at once and at most 1 MiB/s together. At most 16 parts wait.
func Upload(ctx context.Context, parts iter.Seq[[]byte], upload func(context.Context, io.Reader) error) error {
	limiter := rate.NewLimiter(bandwidth, burst)
	queue := make(chan []byte, 16)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(queue)
		for part := range parts {
			select {
			case queue <- part:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range 4 {
		g.Go(func() error {
			for part := range queue {
				if err := upload(ctx, &reader{ctx, bytes.NewReader(part), limiter}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// reader is a throttled reader.
type reader struct {
	ctx     context.Context
	r       io.Reader
	limiter *rate.Limiter
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p[:min(len(p), burst)])
	if n > 0 {
		if err := r.limiter.WaitN(r.ctx, n); err != nil {
			return n, err
		}
	}
	return n, err
}
