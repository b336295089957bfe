package core

import (
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/machine"
)

// terms are a limiter's options as the machine has them, and what an epoch counts from. They
// do not change.
type terms struct {
	*label
	machine.Terms

	base    int64  // the instant 0, in nanoseconds since start
	first   uint64 // the number of the epoch's generation 0
	shift   uint8  // of the generation in the epoch's word
	watched bool   // the label has a hook
	bubble  bool   // the clock is that of a synctest bubble
}

// label holds the terms that most limiters leave unset, so that these can share one.
type label struct {
	name   string
	anchor time.Time   // a window's, as it was given
	hook   direct.Hook // called at the end of watched leases; nil: they are not watched
}

var unlabelled label

// newTerms returns terms whose instants count from now on.
func newTerms(name string, anchor time.Time, t machine.Terms) terms {
	k := terms{label: &unlabelled, Terms: t, base: int64(time.Since(start)), shift: generationShift, bubble: bubbled()}
	if name != "" || !anchor.IsZero() {
		k.label = &label{name: name, anchor: anchor}
	}
	if t.StateBits > 0 {
		k.shift = t.StateBits
	}
	k.From = k.origin(0)
	return k
}

// bubbled reports whether the clock is a synctest bubble's: it has no monotonic reading.
func bubbled() bool {
	now := time.Now()
	return now == now.Round(0) //nolint:revive,staticcheck // the reading is what counts, not the instant
}

// origin returns where a window's grid begins, or from where on a bucket's word counts.
func (t *terms) origin(now int64) int64 {
	switch t.Kind {
	case machine.Window:
		return anchored(t.anchor, t.base, t.Span)
	case machine.TokenBucket:
		return now
	}
	return 0
}

// same reports whether u says the same as t, apart from what they count from.
func (t *terms) same(u *terms) bool {
	a, b := t.Terms, u.Terms
	a.From, b.From = 0, 0
	return a == b && t.name == u.name && t.anchor.Equal(u.anchor) && t.anchor.IsZero() == u.anchor.IsZero()
}

// mode returns the machine's mode of a limiter.
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

// length returns what the metadata calls the window: a window's length, a bucket's time
// from empty to full; 0 for a concurrency limiter.
func (t *terms) length() int64 {
	if t.Kind == machine.TokenBucket {
		return t.FillTime()
	}
	return t.Span
}

// anchored returns the origin of a grid that has a point at anchor, for instants that count
// from base, which is now or long ago. The grid of a zero anchor has a point at base.
func anchored(anchor time.Time, base, length int64) int64 {
	if anchor.IsZero() {
		return 0
	}
	begun := time.Now().Add(time.Duration(base) - time.Since(start))
	d := unixModulo(anchor, length) - unixModulo(begun, length)
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
