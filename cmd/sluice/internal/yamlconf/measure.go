package yamlconf

import "go.yaml.in/yaml/v4"

const (
	maxLevels  = 1000    // maximum number of levels of mappings and lists in each other
	maxAliased = 1 << 20 // values that the aliases of a file stand for
)

// measure finds out whether the nodes of a document can be read: there is no cycle, and not too much behind its aliases.
type measure struct {
	file    *file
	anchors map[*yaml.Node]size // zero while the value of the anchor is being measured
}

// size is how much there is to read of a value.
type size struct {
	values  int // its own, and those that its aliases stand for
	aliased int // those that its aliases stand for
	levels  int
}

// of measures a value below depth levels. It returns false after a fault, which ends the measurement.
func (m *measure) of(n *yaml.Node, depth int) (s size, ok bool) {
	fail := func(format string, args ...any) (size, bool) {
		m.file.fault(placeOfNode(n), format, args...)
		return size{}, false
	}
	if n.Kind == yaml.AliasNode {
		s = m.anchors[n.Alias]
		if s.aliased = s.values; s.levels == 0 {
			return fail("the value of anchor %q contains itself", n.Value)
		}
	} else {
		if n.Anchor != "" {
			m.anchors[n] = size{}
		}
		s = size{values: 1, levels: 1}
		for _, child := range n.Content {
			if depth >= maxLevels {
				break
			}
			c, ok := m.of(child, depth+1)
			if !ok {
				return size{}, false
			}
			s = size{s.values + c.values, s.aliased + c.aliased, max(s.levels, c.levels+1)}
		}
		if n.Anchor != "" {
			m.anchors[n] = s
		}
	}
	switch {
	case depth+s.levels > maxLevels:
		return fail("values stand in more than %d others", maxLevels)
	case s.aliased > maxAliased:
		return fail("its aliases stand for more than %d values", maxAliased)
	}
	return s, true
}
