package ioreader

import (
	"math"
	"math/bits"
	"reflect"
	"time"

	"github.com/sluice-go/sluice/core"
)

// pace decides how many bytes a request asks for.
type pace struct {
	slice     int // at most; at least 1
	ceiling   int // what the slice may grow to; at least 1
	countdown int // grants until the slice is looked at again
	kind      kind

	// sharing: others have waited for the same limiter within the last sharedFor, so a
	// small call may take a whole slice.
	sharing bool
	shared  time.Time // when others were last seen
	served  time.Time // when the limiter last answered
}

// kind is what is known of a limiter.
type kind uint8

const (
	other kind = iota // a chain, or somebody else's
	timed             // a leaf of core whose permits come back with time; its leases hold nothing
	held              // a concurrency limiter
)

const (
	sliceTime   = 2 * time.Millisecond // a sleep takes at least 1.07 ms
	smallTime   = 5 * time.Millisecond // a slice this long is used if it is small
	small       = 256
	firstSlice  = 64 << 10
	probeSlice  = 4 << 10
	largest     = 1 << 20 // of a limiter whose rate is not known
	lookEvery   = 4096
	sharedFor   = 50 * time.Millisecond
	eagerWithin = 5 * time.Millisecond
)

func newPace(l core.Limiter) pace {
	p := pace{kind: kindOf(l)}
	p.ceiling = ceilingOf(limitOf(l))
	p.slice = min(p.ceiling, firstSlice)
	if p.kind == timed {
		p.slice = min(p.slice, probeSlice) // the rate is in the first lease
	}
	return p
}

func kindOf(l core.Limiter) kind {
	switch l.(type) {
	case *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow, *timedChain:
		return timed
	case *core.ConcurrencyLimiter:
		return held
	}
	return other
}

// limitOf returns the limiter's limit, or math.MaxInt if it does not tell.
func limitOf(l core.Limiter) int {
	if r, ok := l.(core.Reporter); ok {
		if limit := r.Statistics().Limit; limit > 0 {
			return limit
		}
	}
	return math.MaxInt
}

func ceilingOf(limit int) int { return max(limit/4, 1) }

// learn adapts the slice after a grant, and looks whether others wait.
func (p *pace) learn(l core.Limiter, lease core.Lease, waited time.Duration, didWait bool) {
	p.countdown = lookEvery
	p.ceiling = ceilingOf(limitOf(l))
	switch p.kind {
	case timed:
		if n := sliceOf(lease); n > 0 {
			p.slice = n
		}
	case held:
		p.slice = firstSlice
	default:
		switch {
		case waited > 2*sliceTime:
			p.slice = max(p.slice/2, min(small, p.slice))
		case waited < sliceTime && p.slice < largest:
			p.slice = min(p.slice*2, largest)
		}
	}
	p.slice = max(min(p.slice, p.ceiling), 1)
	p.look(l, didWait)
}

// sliceOf returns the slice for the rate that the lease of a rate limiter tells: what is
// missing now is back after the time until it is full. 0 if it does not.
func sliceOf(lease core.Lease) int {
	limit, ok := core.PermitLimit.From(lease)
	if !ok {
		return 0
	}
	left, _ := core.Remaining.From(lease)
	reset, ok := core.ResetAfter.From(lease)
	missing := limit - left
	if !ok || reset <= 0 || missing <= 0 {
		return 0
	}
	within := func(d time.Duration) int {
		hi, lo := bits.Mul64(uint64(missing), uint64(d))
		if hi >= uint64(reset) {
			return math.MaxInt
		}
		n, _ := bits.Div64(hi, lo, uint64(reset))
		return int(min(n, math.MaxInt))
	}
	return max(within(sliceTime), min(within(smallTime), small), 1)
}

// look notes whether others wait for the limiter too.
func (p *pace) look(l core.Limiter, didWait bool) {
	if p.kind != timed || !didWait && !p.sharing {
		return
	}
	now := time.Now()
	p.served = now
	if l.(core.Reporter).Statistics().Queued > 0 {
		p.sharing, p.shared = true, now
	} else if now.Sub(p.shared) > sharedFor {
		p.sharing = false
	}
}

// eager reports whether the stream has come back for more as soon as it was served.
func (p *pace) eager() bool { return time.Since(p.served) <= eagerWithin }

// shrink makes the slices smaller than asked, which was more than the limit.
func (p *pace) shrink(l core.Limiter, asked int) {
	p.ceiling = ceilingOf(min(limitOf(l), asked-1))
	p.slice = min(p.slice, p.ceiling)
}

// isNil reports whether l is nil, or holds a nil pointer.
func isNil(l core.Limiter) bool {
	v := reflect.ValueOf(l)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
