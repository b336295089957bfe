package meter

import (
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/core"
)

// pace decides how many bytes a request asks for, from what the leases say and how long the
// limiter makes the stream wait.
type pace struct {
	slice     int  // at most; at least 1
	ceiling   int  // what the slice may grow to; at least 1
	countdown int  // grants until the slice is looked at again, if none takes all of it
	rated     bool // leases tell a rate

	// factor is by how many powers of two a slice is larger than the lease's rate makes it:
	// what a chain's lease says is one limiter's limit and perhaps another's window.
	factor int
	hasty  int // slices in a row for which the stream waited, and far less than the rate says

	// sharing: others have waited for the same limiter within the last sharedFor, so a
	// small call may take a whole slice.
	sharing bool
	shared  time.Time // when others were last seen
	served  time.Time // when the limiter last answered, having made the stream wait
}

const (
	// A slice is for this much time of the limiter's rate. It is the shortest that a sleep
	// can tell: one of a microsecond takes 1.07 ms on Linux.
	sliceTime = 2 * time.Millisecond

	// Where the rate is so low that 2 ms are a handful of bytes, a slice is for up to 5 ms and
	// up to 256 bytes: fewer system calls, and still 200 slices a second.
	smallTime = 5 * time.Millisecond
	small     = 256

	// The first slice, while no lease has said anything: a page, which is at most a quarter
	// of what the limiter holds.
	firstSlice = 4 << 10

	// Under a concurrency limiter no slice has to wait for time: this is twice the buffer that
	// io.Copy uses, so its pieces pass whole.
	heldSlice = 64 << 10

	// Of a limiter that says nothing the slice is found by trying, up to this.
	largest = 1 << 20

	// A slice takes no more than this part of the limit, so that four streams are served
	// from it at once, and a bucket's tokens come faster than they are waited for.
	ofLimit = 4

	// While nothing makes the stream wait, and its calls are smaller than a slice, the slice is
	// looked at again after this many grants. To look means to read metadata and statistics,
	// which takes longer than the grant: once in so many, that does not show.
	lookEvery = 4096

	// Others that have not been seen to wait for this long, 25 slices, have gone.
	sharedFor = 50 * time.Millisecond

	// A stream that comes back within this time, as one that only copies does, has a use for
	// a whole slice; and no unused part of one is kept longer.
	eagerWithin = 5 * time.Millisecond

	// After so many hasty slices in a row the rate is believed to be higher than the lease
	// says. One or two occur when tokens were left.
	manyHasty = 4
)

func newPace(l core.Limiter) pace {
	p := pace{ceiling: ceilingOf(Limit(l))}
	p.slice = min(p.ceiling, firstSlice)
	return p
}

// due counts a grant, and reports whether it is time to learn from one.
func (p *pace) due(asked int) bool {
	p.countdown--
	return p.countdown < 0 || asked == p.slice && p.rated
}

// Limit returns the limiter's limit, or math.MaxInt if it does not tell.
func Limit(l core.Limiter) int {
	if r, ok := l.(core.Reporter); ok {
		if limit := r.Statistics().Limit; limit > 0 {
			return limit
		}
	}
	return math.MaxInt
}

func ceilingOf(limit int) int { return max(limit/ofLimit, 1) }

// learn adapts the slice after a grant for which the stream has waited so long; 0: not at all.
func (p *pace) learn(l core.Limiter, lease core.Lease, asked int, waited time.Duration) {
	p.countdown = lookEvery
	limit := Limit(l)
	told, ok := core.PermitLimit.From(lease)
	if ok && told > 0 {
		limit = min(limit, told)
	}
	p.ceiling = ceilingOf(limit)
	base := sliceOf(lease, limit)
	p.rated = base > 0
	switch {
	case base > 0:
		p.follow(l, lease, base, asked, waited)
	case ok:
		p.slice = heldSlice
	case waited > 2*sliceTime:
		p.slice = max(p.slice/2, min(small, p.slice))
	case waited < sliceTime && p.slice < largest:
		p.slice = min(p.slice*2, largest)
	}
	p.slice = max(min(p.slice, p.ceiling), 1)
}

// follow makes the slice what the lease's rate says, and looks whether others wait.
func (p *pace) follow(l core.Limiter, lease core.Lease, base, asked int, waited time.Duration) {
	if waited > 0 || p.sharing {
		now := time.Now()
		if waited > 0 {
			p.adjust(now.Sub(p.served), asked)
		}
		p.served = now
		p.look(l, now)
	}
	whole := asked >= base
	p.slice = max(base, min(base, p.ceiling>>p.factor)<<p.factor)
	if whole && waited == 0 {
		// As long as there is more than a slice, nothing is gained by passing it piecemeal.
		if left, ok := core.Remaining.From(lease); ok && left/ofLimit > p.slice {
			p.slice = left / ofLimit
			p.countdown = 0
		}
	}
}

// adjust finds out whether slices come faster than their size lets expect.
func (p *pace) adjust(sinceLast time.Duration, asked int) {
	switch {
	case asked < p.slice:
	case sinceLast > 2*sliceTime:
		p.factor, p.hasty = max(p.factor-1, 0), 0
	case sinceLast >= sliceTime/2:
		p.hasty = 0
	default:
		p.hasty++
		if p.hasty == manyHasty && p.slice < p.ceiling {
			p.factor++
			p.hasty = 0
		}
	}
}

// look notes whether others wait for the limiter too.
func (p *pace) look(l core.Limiter, now time.Time) {
	r, ok := l.(core.Reporter)
	if !ok {
		return
	}
	if r.Statistics().Queued > 0 {
		p.sharing, p.shared = true, now
	} else if now.Sub(p.shared) > sharedFor {
		p.sharing = false
	}
}

// eager reports whether the stream has come back for more as soon as it was served.
func (p *pace) eager() bool { return time.Since(p.served) <= eagerWithin }

// shrink makes the slices smaller than asked, which was more than the limit.
func (p *pace) shrink(l core.Limiter, asked int) {
	p.ceiling = ceilingOf(min(Limit(l), asked-1))
	p.slice = min(p.slice, p.ceiling)
}

// sliceOf returns the slice for the rate that a lease tells; 0 if it tells none.
func sliceOf(lease core.Lease, limit int) int {
	permits, span := limit, time.Duration(0)
	if whole, ok := core.Window.From(lease); ok && whole > 0 {
		span = whole
	} else if reset, ok := core.ResetAfter.From(lease); ok && reset > 0 {
		// What is missing now is back after the time until all is.
		left, _ := core.Remaining.From(lease)
		permits, span = limit-left, reset
	}
	if span <= 0 || permits <= 0 {
		return 0
	}
	return max(within(permits, span, sliceTime), min(within(permits, span, smallTime), small), 1)
}

// tellsRate reports whether the lease is of a rate limiter, or of a chain with one.
func tellsRate(lease core.Lease) bool {
	if _, ok := core.Window.From(lease); ok {
		return true
	}
	_, ok := core.ResetAfter.From(lease)
	return ok
}

// within returns how many of the permits that come in a span come in d.
func within(permits int, span, d time.Duration) int {
	hi, lo := bits.Mul64(uint64(permits), uint64(d))
	if hi >= uint64(span) {
		return math.MaxInt
	}
	n, _ := bits.Div64(hi, lo, uint64(span))
	return int(min(n, math.MaxInt))
}
