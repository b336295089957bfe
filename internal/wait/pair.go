package wait

import (
	"github.com/sluice-go/sluice/internal/list"
)

// Pair is a [Source] that ends with either of two others: see [Both].
type Pair struct {
	Source

	of    [2]*Source
	nodes [2]list.Node[ender] // in the calls of each
}

// Both returns a source for one call that ends with a and with b, and its Pair, whose Leave must follow when the call
// returns. If b is nil, that is a itself, and no Pair. Pairs are used again, so that a call that waits in many limiters,
// each in another one, allocates no more than one that waits in the last of them.
func Both(a, b *Source) (*Source, *Pair) {
	if b == nil {
		return a, nil
	}
	p := a.pair.Swap(nil)
	if p == nil {
		p = new(Pair)
	}
	p.of = [2]*Source{a, b}
	for i, s := range p.of {
		p.nodes[i].Value = p
		if cause := s.join(&p.nodes[i]); cause != nil {
			p.end(cause)
		}
	}
	return &p.Source, p
}

func (p *Pair) end(cause error) { p.End(cause) }

// Leave ends the use of the source. A Pair of which one source has ended, or may be about to end it, is not used again.
func (p *Pair) Leave() {
	if p == nil {
		return
	}
	again := true
	for i, s := range p.of {
		again = s.leave(&p.nodes[i]) && again
	}
	if again {
		p.of[0].pair.Store(p)
	}
}
