package redislimit

import (
	"math"
	"math/bits"
	"slices"
)

// forecast is what the store told of a rate's state, to be played on: it says when permits
// come back if nobody else takes any. Instants are microseconds since the store told; they
// do not decrease from call to call. It decides as the scripts do.
type forecast struct {
	t    *terms
	lack int64 // tokens missing, or permits taken

	tick int64 // a bucket's latest, as of lack

	zero     int64 // a window's segment 0 begins; at most 0
	segments []segment
}

type segment struct{ index, taken int64 }

// never is an instant that does not come.
const never = math.MaxInt64

func (f *forecast) clone() *forecast {
	c := *f
	c.segments = slices.Clone(f.segments)
	return &c
}

func (f *forecast) available() int { return int(max(int64(f.t.limit)-f.lack, 0)) }

// advance applies what is due by now.
func (f *forecast) advance(now int64) {
	if f.t.kind != kindBucket {
		gone := f.segment(now) - f.t.step
		for len(f.segments) > 0 && f.segments[0].index <= gone {
			f.lack -= f.segments[0].taken
			f.segments = f.segments[1:]
		}
		return
	}
	if f.lack == 0 || now-f.tick < f.t.span {
		return
	}
	if k := (now - f.tick) / f.t.span; k >= f.ticks(f.lack) {
		f.lack = 0
	} else {
		f.lack, f.tick = f.lack-k*f.t.step, f.tick+k*f.t.span
	}
}

// take takes n permits, which are there now.
func (f *forecast) take(now int64, n int) {
	if f.t.kind == kindBucket {
		if f.lack == 0 {
			f.tick = now
		}
		f.lack += int64(n)
		return
	}
	f.lack += int64(n)
	i := f.segment(now)
	if l := len(f.segments); l > 0 && f.segments[l-1].index == i {
		f.segments[l-1].taken += int64(n)
	} else {
		f.segments = append(f.segments, segment{i, int64(n)})
	}
}

// ready returns the first instant, now or later, at which n permits are there if nothing
// else is taken.
func (f *forecast) ready(now int64, n int) int64 {
	need := int64(n) - (int64(f.t.limit) - f.lack)
	if need <= 0 {
		return now
	}
	if f.t.kind == kindBucket {
		return f.tickAfter(f.ticks(need))
	}
	for _, s := range f.segments {
		if need -= s.taken; need <= 0 {
			return f.begin(s.index + f.t.step)
		}
	}
	return never
}

// ticks returns how many ticks bring at least n tokens.
func (f *forecast) ticks(n int64) int64 { return (n + f.t.step - 1) / f.t.step }

// tickAfter returns the instant of the k-th tick from the latest on.
func (f *forecast) tickAfter(k int64) int64 {
	hi, lo := bits.Mul64(uint64(k), uint64(f.t.span))
	if hi != 0 || lo > never {
		return never
	}
	return max(f.tick+int64(lo), f.tick) // an overflow is negative
}

// begin returns the instant at which segment i begins; i is at least -step.
func (f *forecast) begin(i int64) int64 {
	hi, lo := bits.Mul64(uint64(i+f.t.step), uint64(f.t.span))
	lo, carry := bits.Add64(lo, uint64(f.t.step)-1, 0)
	if hi += carry; hi >= uint64(f.t.step) {
		return never
	}
	x, _ := bits.Div64(hi, lo, uint64(f.t.step))
	if x > never/2 {
		return never
	}
	return int64(x) - f.t.span + f.zero
}

// segment returns the segment of an instant.
func (f *forecast) segment(at int64) int64 {
	hi, lo := bits.Mul64(uint64(at-f.zero), uint64(f.t.step))
	i, _ := bits.Div64(hi, lo, uint64(f.t.span)) // below 2^64, as step is at most span
	return int64(i)
}

// plan is a forecast in which some who wait have been served, oldest first.
type plan struct {
	f  *forecast
	at int64
}

// serve plays the serving of n permits.
func (p *plan) serve(n int) {
	if p.at = p.due(n); p.at != never {
		p.f.advance(p.at)
		p.f.take(p.at, n)
	}
}

// due returns the instant at which n permits can be served behind all in the plan.
func (p *plan) due(n int) int64 {
	if p.at == never {
		return never
	}
	return p.f.ready(p.at, n)
}

// taken plays what a call took, as of now, and reports whether that leads to what the
// answer says was taken in all.
func (f *forecast) taken(c *call, r reply, now int64) bool {
	f.advance(now)
	for i, o := range c.ops {
		switch a := r.answers[i]; {
		case o.kind == opGive:
			return false // it is not known in which segment
		case o.kind == opTake && a.status == 1 && o.n > 0:
			f.take(now, int(o.n))
		case o.kind == opAhead && a.status > 0:
			f.take(now, int(a.status))
		}
	}
	return f.lack == r.lack
}
