package yamlconf

import (
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Place is a place in a file. Lines and columns count from 1.
type Place struct{ Line, Column int }

// document is what all nodes of a file share.
type document struct {
	*faults

	targets map[*ast.AliasNode]ast.Node
}

// Node is a value in a file. An alias has the value that it stands for and its own place.
type Node struct {
	d    *document
	n    ast.Node
	at   Place
	text bool // tagged as !!str
}

func (d *document) node(n ast.Node) Node {
	resolved := Node{d: d, at: placeOf(n)}
	for {
		switch t := n.(type) {
		case *ast.AnchorNode:
			n = t.Value
		case *ast.AliasNode:
			n = d.targets[t]
		case *ast.MappingKeyNode:
			n = t.Value
		case *ast.TagNode:
			switch tag := t.Start.Value; tag {
			case "!!str":
				resolved.text = true
			case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
			default:
				d.add(placeOf(t), "tag %s is not supported", tag)
			}
			n = t.Value
		default:
			resolved.n = n
			return resolved
		}
	}
}

// Place returns where the value is.
func (n Node) Place() Place { return n.at }

// Fault adds a fault at the value's place.
func (n Node) Fault(format string, args ...any) { n.d.add(n.at, format, args...) }

// FaultAt adds a fault at another place of the file.
func (n Node) FaultAt(at Place, format string, args ...any) { n.d.add(at, format, args...) }

// IsNull reports whether there is no value: nothing, null or ~.
func (n Node) IsNull() bool {
	switch n.n.(type) {
	case nil, *ast.NullNode:
		return !n.text
	}
	return false
}

// IsList reports whether the value is a list.
func (n Node) IsList() bool { _, ok := n.n.(*ast.SequenceNode); return ok }

// IsMapping reports whether the value is a mapping.
func (n Node) IsMapping() bool {
	switch n.n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// IsText reports whether the value is a text: not a list, a mapping or null, nor, unless it is quoted, a number or a boolean.
func (n Node) IsText() bool {
	switch n.n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return true
	}
	return n.text
}

// IsFraction reports whether the value is a number, but not a whole one.
func (n Node) IsFraction() bool {
	switch n.n.(type) {
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return !n.text
	}
	return false
}

// scalar returns a value that is not a list, a mapping or null, as the file has it.
func (n Node) scalar() (string, bool) {
	switch t := n.n.(type) {
	case *ast.StringNode:
		return t.Value, true
	case *ast.LiteralNode:
		return t.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.n.GetToken().Value, true
	case *ast.NullNode:
		return t.Token.Value, n.text
	}
	return "", false
}

// Text reads a text. A number or a boolean is a text, as the file has it.
func (n Node) Text(what string) (string, bool) {
	text, ok := n.scalar()
	if !ok {
		n.Fault("%s is %s, want a text", what, n)
	}
	return text, ok
}

// Bool reads true or false, and the words that older versions of YAML have for them.
func (n Node) Bool(what string) bool {
	switch t := n.n.(type) {
	case *ast.BoolNode:
		return t.Value
	case *ast.StringNode:
		if t.Token.Type != token.StringType {
			break // it is quoted
		}
		switch strings.ToLower(t.Value) {
		case "yes", "on", "y":
			return true
		case "no", "off", "n":
			return false
		}
	}
	n.Fault("%s is %s, want true or false", what, n)
	return false
}

// Uint reads a whole number, and returns least after a fault.
func (n Node) Uint(what string, least, most uint64) uint64 {
	if _, ok := n.n.(*ast.IntegerNode); ok && !n.text {
		v, err := strconv.ParseUint(strings.TrimPrefix(n.n.GetToken().Value, "+"), 0, 64)
		if err == nil && v >= least && v <= most {
			return v
		}
	}
	n.Fault("%s is %s, want a whole number from %d to %d", what, n, least, most)
	return least
}

// Items returns the values of a list. Null has none, and any other value is the only one of its own list.
func (n Node) Items() []Node {
	switch {
	case n.IsNull():
		return nil
	case !n.IsList():
		return []Node{n}
	}
	values := n.n.(*ast.SequenceNode).Values
	items := make([]Node, len(values))
	for i, v := range values {
		items[i] = n.d.node(v)
	}
	return items
}

// Pair is a key of a mapping and its value.
type Pair struct {
	Key   string
	At    Node // the key
	Value Node
}

// Unknown adds the fault that what has no such key.
func (p Pair) Unknown(what string) { p.At.Fault("%s has no %q", what, p.Key) }

// Pairs returns the pairs of a mapping in the order of the file: its own and then those that it merges. Null has none. A key
// that stands twice, or is no text, is a fault.
func (n Node) Pairs(what string) []Pair {
	var pairs []Pair
	n.pairs(what, &pairs, make(map[string]bool))
	return pairs
}

// pairs adds the pairs whose keys are not in seen.
func (n Node) pairs(what string, to *[]Pair, seen map[string]bool) {
	var values []*ast.MappingValueNode
	switch t := n.n.(type) {
	case *ast.MappingNode:
		values = t.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{t}
	default:
		if !n.IsNull() {
			n.Fault("%s is %s, want keys and values", what, n)
		}
	}
	own := make(map[string]int, len(values))
	var merged []Node
	for _, v := range values {
		at, value := n.d.node(v.Key), n.d.node(v.Value)
		if _, merge := at.n.(*ast.MergeKeyNode); merge {
			merged = append(merged, value.Items()...)
			continue
		}
		key, ok := at.scalar()
		if first, twice := own[key]; twice && ok {
			at.Fault("%s is here twice, first in line %d", n.d.quote(key), first)
			continue
		}
		if !ok {
			at.Fault("%s has a key that is %s, want a text", what, at)
			continue
		}
		own[key] = at.at.Line
		if !seen[key] {
			*to = append(*to, Pair{key, at, value})
		}
	}
	for key := range own {
		seen[key] = true
	}
	for _, m := range merged {
		m.pairs(what, to, seen)
	}
}

// Any returns the value as nil, a bool, a float64, a string, a []any or a map[string]any.
func (n Node) Any() any {
	switch t := n.n.(type) {
	case *ast.SequenceNode:
		list := make([]any, 0, len(t.Values))
		for _, item := range n.Items() {
			list = append(list, item.Any())
		}
		return list
	case *ast.MappingNode, *ast.MappingValueNode:
		mapping := make(map[string]any)
		for _, p := range n.Pairs("a mapping") {
			mapping[p.Key] = p.Value.Any()
		}
		return mapping
	case *ast.BoolNode:
		if !n.text {
			return t.Value
		}
	case *ast.InfinityNode:
		if !n.text {
			return t.Value
		}
	case *ast.NanNode:
		if !n.text {
			return math.NaN()
		}
	case *ast.IntegerNode, *ast.FloatNode:
		if n.text {
			break
		}
		text := n.n.GetToken().Value
		if v, err := strconv.ParseInt(text, 0, 64); err == nil {
			return float64(v)
		}
		if v, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64); err == nil {
			return v
		}
	}
	if text, ok := n.scalar(); ok {
		return text
	}
	return nil
}

// String returns the value as messages name it.
func (n Node) String() string {
	switch {
	case n.IsNull():
		return "empty"
	case n.IsList():
		return "a list"
	case n.IsMapping():
		return "a mapping"
	}
	text, _ := n.scalar()
	if n.IsText() {
		return n.d.quote(text)
	}
	return text
}

func placeOf(n ast.Node) Place {
	switch t := n.(type) {
	case nil:
		return Place{1, 1}
	case *ast.MappingNode:
		if !t.IsFlowStyle && len(t.Values) > 0 {
			return placeOf(t.Values[0].Key) // not the colon behind it
		}
	case *ast.MappingValueNode:
		if !t.IsFlowStyle {
			return placeOf(t.Key)
		}
	case *ast.AnchorNode:
		return placeOf(t.Value)
	}
	return placeOfToken(n.GetToken())
}

func placeOfToken(t *token.Token) Place {
	if t == nil || t.Position == nil {
		return Place{1, 1}
	}
	return Place{t.Position.Line, t.Position.Column}
}
