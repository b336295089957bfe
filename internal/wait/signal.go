package wait

import "github.com/sluice-go/sluice/internal/list"

// Signal is a channel on which a call waits that a [Source] can end too. It costs less than the context of a
// [Call]. Whoever serves the call sends true to Ready, once. A source that ends sends false.
type Signal struct {
	Ready chan bool // channel of capacity 2

	source *Source // source that the call has joined, or nil
	node   list.Node[ender]
}

// Join makes s end the call. If s has ended already, it sends immediately. s may be nil.
func (g *Signal) Join(s *Source) {
	if s == nil {
		return
	}
	g.source, g.node.Value = s, g
	if cause := s.join(&g.node); cause != nil {
		g.end(cause)
	}
}

// Leave undoes Join. It returns false if the source has ended: then it has sent to Ready or will, and the Signal
// cannot be used for another call.
func (g *Signal) Leave() bool {
	s := g.source
	if s == nil {
		return true
	}
	g.source = nil
	return s.leave(&g.node)
}

func (g *Signal) end(error) { g.Ready <- false }
