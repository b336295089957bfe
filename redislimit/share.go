package redislimit

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/sluice-go/sluice/core"
)

// Limiter has the methods that all limiters of this package have.
type Limiter interface {
	core.Limiter
	core.Reporter
	core.Idler
	core.Settler
	core.Refunder
	io.Closer
	fmt.Stringer

	// UpdateFrom applies the options of a limiter of package core, which must be of the same kind.
	// It does not close from.
	UpdateFrom(from core.Limiter) error
}

// Share returns a limiter with the options of l, one of the four limiters of package core, that processes share through
// the store. Use it where the kind of limit is not known when the program is written, as for a limit of package spec. Nothing
// is taken from l, and Share does not close it.
func Share(l core.Limiter, s StoreOptions) (Limiter, error) {
	switch l := l.(type) {
	case *core.TokenBucket:
		return shared(NewTokenBucket(TokenBucketOptions{l.Options(), s}))
	case *core.FixedWindow:
		return shared(NewFixedWindow(FixedWindowOptions{l.Options(), s}))
	case *core.SlidingWindow:
		return shared(NewSlidingWindow(SlidingWindowOptions{l.Options(), s}))
	case *core.ConcurrencyLimiter:
		return shared(NewConcurrencyLimiter(ConcurrencyLimiterOptions{l.Options(), s}))
	}
	return nil, fmt.Errorf("redislimit: cannot share a %T, want a limiter of package core", l)
}

// shared returns no limiter if there is an error, rather than a nil pointer.
func shared[L Limiter](l L, err error) (Limiter, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// UpdateFrom is Update with the options of a limiter of package core, which must be of the same kind.
func (e *engine) UpdateFrom(from core.Limiter) error {
	var o options
	switch f := from.(type) {
	case *core.TokenBucket:
		o = &TokenBucketOptions{TokenBucketOptions: f.Options()}
	case *core.FixedWindow:
		o = &FixedWindowOptions{FixedWindowOptions: f.Options()}
	case *core.SlidingWindow:
		o = &SlidingWindowOptions{SlidingWindowOptions: f.Options()}
	case *core.ConcurrencyLimiter:
		o = &ConcurrencyLimiterOptions{ConcurrencyLimiterOptions: f.Options()}
	}
	if e.shared.Store != nil && reflect.TypeOf(o) != reflect.TypeOf(e.options) {
		name := strings.TrimSuffix(reflect.TypeOf(e.options).String(), "Options")
		return fmt.Errorf("redislimit: cannot update a %s from a %T", name, from)
	}
	return e.update(o)
}
