package meter

import (
	"net"
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/hold"
)

// Stream says which limiters a stream asks, because two deadlocks must be avoided. A stream that writes to another stream must
// not hold permits that the other's Write waits for. A stream that reads from a pipe must not wait for permits that the bytes
// in the pipe hold. The types of streams embed it, so that [Asked] finds it in them.
type Stream struct {
	writes, reads core.Limiter
	under         any
}

// NewStream is for a stream whose Writes call the limiter writes, and whose bytes that are read hold permits of the
// limiter reads. under is the stream underneath. Each may be nil.
func NewStream(writes, reads core.Limiter, under any) Stream { return Stream{writes, reads, under} }

func (s *Stream) stream() *Stream { return s }

// streamer is a type that embeds a Stream.
type streamer interface{ stream() *Stream }

// Asked returns the limiters for whose permits a Write to s may wait, or whose permits the bytes hold that s reads:
// those of s and of the streams underneath. It looks through connections with a method NetConn, such as a *tls.Conn.
// ok is false if there is no such stream. The limiters are roots: see [hold.Roots].
func Asked(s any, read bool) (roots []core.Limiter, ok bool) { return askedWithin(s, read, mostNested) }

// mostNested is how many streams Asked looks through: a NetConn may return its own connection.
const mostNested = 32

func askedWithin(s any, read bool, depth int) (roots []core.Limiter, ok bool) {
	if depth == 0 || backdoor.IsNil(s) { // also a connection over none yet, whose NetConn returns a nil *tls.Conn
		return nil, false
	}
	switch s := s.(type) {
	case streamer:
		in := s.stream()
		if l := in.reads; read && l != nil {
			roots = hold.Roots(l) // bytes may also hold permits of a shadow
		}
		if l := in.writes; !read && l != nil {
			roots = hold.BindingRoots(l)
		}
		below, _ := askedWithin(in.under, read, depth-1)
		return slices.Concat(roots, below), true
	case interface{ NetConn() net.Conn }:
		return askedWithin(s.NetConn(), read, depth-1)
	}
	return nil, false
}

// Nested is the limiter of a stream that would hold its permits while it waits for those of other limiters. The
// zero Nested has no limiter. It is for one call at a time.
type Nested struct {
	limiter core.Limiter
	below   func() []core.Limiter // the roots of the other limiters; nil if there are none
	seen    []core.Limiter        // the roots of the limiter, and what below returned last
	reduced bool
}

// Over is for a stream with the limiter l that writes to w and reads r. Each of them may be nil.
func (n *Nested) Over(l core.Limiter, w, r any) {
	_, writes := Asked(w, false)
	_, reads := Asked(r, true)
	if (writes || reads) && l != nil {
		n.limiter = l
		n.below = func() []core.Limiter {
			below, _ := Asked(w, false)
			held, _ := Asked(r, true)
			return append(below, held...)
		}
	}
}

// Beside is for the one side of a stream, with the limiter l, whose other side has the limiter other. Both may be
// nil. It returns an error if they cannot be separated.
func (n *Nested) Beside(l, other core.Limiter) error {
	if l == nil || other == nil || alwaysRated(l) || alwaysRated(other) {
		return nil
	}
	n.limiter = l
	n.below = func() []core.Limiter { return hold.Roots(other) } // also of a shadow
	_, err := hold.Without(l, n.below())
	return err
}

// alwaysRated reports whether the permits of l are returned with time alone, and no Set can change that.
func alwaysRated(l core.Limiter) bool {
	c := LookFirst(l)
	return c.Fixed() && c.Rated
}

// Reduced reports whether Follow has taken something away from the limiter.
func (n *Nested) Reduced() bool { return n.reduced }

// Follow makes m ask the rest of the limiter, without the other limiters, and reports
// whether that has changed. It changes when a limiter per key is created or evicted.
func (n *Nested) Follow(m *Meter) (changed bool, err error) {
	if n.below == nil {
		return false, nil
	}
	return n.followSlow(m)
}

// followSlow is apart so that Follow is inlined: most streams are over none, and each slice asks twice.
func (n *Nested) followSlow(m *Meter) (changed bool, err error) {
	below := n.below()
	seen := slices.Concat(hold.Roots(n.limiter), below)
	if n.seen != nil && hold.SameRoots(seen, n.seen) {
		return false, nil
	}
	rest, err := hold.Without(n.limiter, below)
	if err != nil {
		return false, err
	}
	n.seen, n.reduced = seen, !backdoor.Same(rest, n.limiter)
	m.Settle(0)
	m.Init(rest)
	return true, nil
}
