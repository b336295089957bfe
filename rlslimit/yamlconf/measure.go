package yamlconf

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

const (
	maxLevels  = 1000    // of mappings and lists in each other
	maxAliased = 1 << 20 // values that the aliases of a file stand for
)

// measure finds out what the aliases of a document stand for. It reads the tree in the order of the file, because an alias
// stands for the latest anchor of its name.
type measure struct {
	faults  *faults
	anchors map[string]*anchor
	targets map[*ast.AliasNode]ast.Node
}

// anchor is a value with a name.
type anchor struct {
	value ast.Node
	size
	open bool // the value is being measured
}

// size is how much there is to read of a value.
type size struct {
	aliased int // values that its aliases stand for
	values  int // those and its own
	levels  int
}

// check reports whether the document can be read. It adds one fault if not.
func (m *measure) check(root ast.Node) bool {
	_, ok := m.of(root, 0)
	return ok
}

// of measures a value below depth levels. It returns false after a fault, which ends the measurement.
func (m *measure) of(n ast.Node, depth int) (size, bool) {
	if depth > maxLevels {
		m.faults.add(placeOf(n), "values stand in more than %d others", maxLevels)
		return size{}, false
	}
	total := size{values: 1, levels: 1}
	for _, child := range children(n) {
		s, ok := m.of(child, depth+1)
		if !ok || !m.add(&total, s, child) {
			return size{}, false
		}
	}
	switch t := n.(type) {
	case *ast.StringNode:
		// The parser drops the tab.
		if t.Token.Type == token.StringType && strings.Contains(strings.TrimSpace(t.Token.Origin), "\t") {
			m.faults.add(placeOf(n), "error loading config file: an unquoted text contains a tab: put it in quotes")
			return size{}, false
		}
	case *ast.AnchorNode:
		return m.anchor(t, depth)
	case *ast.AliasNode:
		return m.alias(t, depth)
	}
	return total, true
}

func (m *measure) add(total *size, s size, at ast.Node) bool {
	total.values += s.values
	total.aliased += s.aliased
	total.levels = max(total.levels, s.levels+1)
	if total.aliased > maxAliased {
		m.faults.add(placeOf(at), "its aliases stand for more than %d values", maxAliased)
		return false
	}
	return true
}

func (m *measure) anchor(n *ast.AnchorNode, depth int) (size, bool) {
	a := &anchor{value: n.Value, open: true}
	m.anchors[n.Name.String()] = a
	s, ok := m.of(n.Value, depth)
	a.size, a.open = s, false
	return s, ok
}

func (m *measure) alias(n *ast.AliasNode, depth int) (size, bool) {
	name := n.Value.String()
	a := m.anchors[name]
	switch {
	case a == nil:
		m.faults.add(placeOf(n), "no anchor is named %q", name)
		return size{}, false
	case a.open:
		m.faults.add(placeOf(n), "the value of anchor %q contains itself", name)
		return size{}, false
	case depth+a.levels > maxLevels:
		m.faults.add(placeOf(n), "values stand in more than %d others", maxLevels)
		return size{}, false
	}
	m.targets[n] = a.value
	s := size{aliased: a.values, values: a.values, levels: a.levels}
	return s, true
}

// children returns the values in a list or mapping, in the order of the file.
func children(n ast.Node) []ast.Node {
	switch t := n.(type) {
	case *ast.SequenceNode:
		return t.Values
	case *ast.MappingNode:
		all := make([]ast.Node, 0, 2*len(t.Values))
		for _, v := range t.Values {
			all = append(all, v.Key, v.Value)
		}
		return all
	case *ast.MappingValueNode:
		return []ast.Node{t.Key, t.Value}
	case *ast.MappingKeyNode:
		return []ast.Node{t.Value}
	case *ast.TagNode:
		return []ast.Node{t.Value}
	}
	return nil
}
