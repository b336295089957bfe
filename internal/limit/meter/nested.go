package meter

import (
	"fmt"
	"net"
	"reflect"
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
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
// ok is false if there is no such stream. The limiters are roots: see [backdoor.Ways.Roots].
func Asked(s any, read bool) (roots []core.Limiter, ok bool) {
	for range mostNested {
		if backdoor.IsNil(s) { // also what a connection over none yet returns, a nil *tls.Conn
			break
		}
		switch k := s.(type) {
		case streamer:
			in := k.stream()
			if l := in.reads; read && l != nil {
				roots = append(roots, ways.Roots(l, false)...) // bytes may also hold permits of a shadow
			}
			if l := in.writes; !read && l != nil {
				roots = append(roots, ways.Roots(l, true)...)
			}
			s, ok = in.under, true
		case interface{ NetConn() net.Conn }:
			s = k.NetConn()
		default:
			return roots, ok
		}
	}
	return roots, ok
}

// mostNested is how many streams Asked looks through: a NetConn may return its own connection.
const mostNested = 32

// Nested is the limiter of a stream that would hold its permits while it waits for those of other limiters. The
// zero Nested has no limiter. It is for one call at a time.
type Nested struct {
	Reduced bool // Follow has taken something away from the limiter

	limiter core.Limiter
	below   func() []core.Limiter // the roots of the other limiters; nil if there are none
	seen    []core.Limiter        // the roots of the limiter, and what below returned last
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
	n.below = func() []core.Limiter { return ways.Roots(other, false) } // also of a shadow
	_, err := without(l, n.below())
	return err
}

// alwaysRated reports whether the permits of l are returned with time alone, and no Set can change that.
func alwaysRated(l core.Limiter) bool {
	c := LookFirst(l)
	return c.Fixed() && c.Rated
}

// Follow makes m ask the rest of the limiter, without the other limiters, and reports
// whether that has changed. It changes when a limiter per key is created or evicted.
func (n *Nested) Follow(m *Meter) (changed bool, err error) {
	if n.below == nil {
		return false, nil
	}
	below := n.below()
	seen := slices.Concat(ways.Roots(n.limiter, false), below)
	if n.seen != nil && sameRoots(seen, n.seen) {
		return false, nil
	}
	rest, err := without(n.limiter, below)
	if err != nil {
		return false, err
	}
	n.seen, n.Reduced = seen, !backdoor.Same(rest, n.limiter)
	m.Settle(0)
	m.Init(rest)
	return true, nil
}

// without returns the part of l that is left for a stream that holds its permits while it waits for those of below: if
// it requested permits of a limiter that is among those too, it could wait for itself forever. The rest is l itself if it
// has none of them, and nil if it has no others. Limiters whose permits return with time stay. without returns an
// error if the rest asks one of below all the same, as a limiter that embeds another one may.
func without(l core.Limiter, below []core.Limiter) (core.Limiter, error) {
	shared := func(root core.Limiter) bool {
		return !ways.ReturnsWithTime(root) && slices.ContainsFunc(below, func(b core.Limiter) bool { return backdoor.Same(root, b) })
	}
	roots := ways.Roots(l, false)
	all := len(roots)
	others := slices.DeleteFunc(roots, shared)
	switch len(others) {
	case all:
		return l, nil
	case 0:
		return nil, nil
	}
	rest := others[0]
	if len(others) > 1 {
		chain, err := core.Chain(others...)
		if err != nil {
			return nil, err
		}
		rest = chain
	}
	asked := ways.Roots(rest, false)
	if i := slices.IndexFunc(asked, shared); i >= 0 {
		return nil, fmt.Errorf("a stream with %s over a stream with %s would wait for itself, because both take permits of the latter",
			backdoor.Describe(l), backdoor.Describe(asked[i]))
	}
	return rest, nil
}

// sameRoots reports whether two lists have the same limiters in the same order. Limiters that cannot be compared
// count as the same if they are of one type.
func sameRoots(a, b []core.Limiter) bool {
	return slices.EqualFunc(a, b, func(a, b core.Limiter) bool {
		return backdoor.Same(a, b) || reflect.TypeOf(a) == reflect.TypeOf(b) && !reflect.ValueOf(a).Comparable()
	})
}
