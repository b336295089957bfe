package core

import (
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/machine"
)

// terms are what a limiter's options say, and how its cell counts. They do not change.
type terms struct {
	*label
	machine.Terms           // From, of a bucket: the instant from which its cell's word counts
	first         uint64    // number of the cell's generation 0
	base          time.Time // instants count from here
}

// label is what most limiters have in common: nothing.
type label struct {
	name   string
	anchor time.Time   // a window's, as it was given
	hook   direct.Hook // told of the end of watched leases; nil: they are not watched
}

var (
	unlabelled label
	noTerms    = terms{label: &unlabelled}
)

// newTerms returns terms that count from now on.
func newTerms(name string, anchor time.Time, t machine.Terms) *terms {
	k := &terms{label: &unlabelled, Terms: t, base: time.Now()}
	if name != "" || !anchor.IsZero() {
		k.label = &label{name: name, anchor: anchor}
	}
	k.origin(0)
	return k
}

// origin sets where a window's grid begins, or from where on a bucket's word counts.
func (t *terms) origin(now int64) {
	switch t.Kind {
	case machine.Window:
		t.From = anchored(t.anchor, t.base, t.Span)
	case machine.TokenBucket:
		t.From = now
	}
}

// mode returns the modes of a limiter.
func mode(o QueueOrder, manual bool) (m machine.Mode) {
	if o == NewestFirst {
		m |= machine.NewestFirst
	}
	if manual {
		m |= machine.Manual
	}
	return m
}

func (t *terms) order() QueueOrder {
	if t.NewestFirst() {
		return NewestFirst
	}
	return OldestFirst
}

// watched reports whether the limit in force may be less than Limit, so that the leases say
// what it was.
func (t *terms) watched() bool { return t.hook != nil }

// length returns what the metadata calls the window: a window's length, a bucket's time
// from empty to full; 0 for a concurrency limiter.
func (t *terms) length() int64 {
	if t.Kind == machine.TokenBucket {
		return t.FillTime()
	}
	return t.Span
}

// sameLength reports whether the two, which may be nil, have the same length.
func sameLength(a, b *terms) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Limit == b.Limit && a.Step == b.Step && a.Span == b.Span && a.Kind == b.Kind
}

// anchored returns the origin of a grid that has a point at anchor, for instants that
// count from base. A zero anchor is where instants count from.
func anchored(anchor, base time.Time, length int64) int64 {
	if anchor.IsZero() {
		return 0
	}
	d := unixModulo(anchor, length) - unixModulo(base, length)
	if d > 0 {
		d -= length
	}
	return d
}

// unixModulo returns the nanoseconds from 1970 to t, modulo length, whatever the year.
func unixModulo(t time.Time, length int64) int64 {
	m := uint64(length)
	sec, negative := uint64(t.Unix()), t.Unix() < 0
	if negative {
		sec = -sec
	}
	hi, lo := bits.Mul64(sec, uint64(time.Second))
	r := bits.Rem64(hi, lo, m)
	if negative && r != 0 {
		r = m - r
	}
	// Both are below 2^63, so the sum does not overflow.
	return int64((r + uint64(t.Nanosecond())%m) % m)
}
