// Package before limits calls with github.com/juju/ratelimit.
package before

import (
	"io"
	"time"

	"github.com/juju/ratelimit"
)

// NewBucket returns a bucket of 100 tokens a second, which holds 20.
func NewBucket() *ratelimit.Bucket {
	return ratelimit.NewBucketWithRate(100, 20)
}

// Wait waits for a token.
func Wait(b *ratelimit.Bucket) {
	b.Wait(1)
}

// WaitFor waits for a token, for at most d, and reports whether it got one.
func WaitFor(b *ratelimit.Bucket, d time.Duration) bool {
	return b.WaitMaxDuration(1, d)
}

// Try takes a token if there is one.
func Try(b *ratelimit.Bucket) bool {
	return b.TakeAvailable(1) == 1
}

// Slow returns a reader of at most 1 MiB/s.
func Slow(r io.Reader) io.Reader {
	return ratelimit.Reader(r, ratelimit.NewBucketWithRate(1<<20, 64<<10))
}
