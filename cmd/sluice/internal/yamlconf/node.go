package yamlconf

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Node is a value in a file. An alias has the value that it stands for and its own place. The zero Node is null.
type Node struct {
	file *file
	n    *yaml.Node // nil means null
	at   Place
}

func (f *file) node(n *yaml.Node) Node {
	at := placeOfNode(n)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return Node{f, n, at}
}

func placeOfNode(n *yaml.Node) Place { return Place{max(n.Line, 1), max(n.Column, 1)} }

// Place returns where the value is.
func (n Node) Place() Place { return n.at }

// Fault adds a fault at the value's place.
func (n Node) Fault(format string, args ...any) { n.file.fault(n.at, format, args...) }

// FaultAt adds a fault at another place of the file.
func (n Node) FaultAt(at Place, format string, args ...any) { n.file.fault(at, format, args...) }

func (n Node) is(kind yaml.Kind) bool { return n.n != nil && n.n.Kind == kind }

// hasTag reports whether the value is a scalar of one of the tags.
func (n Node) hasTag(tags ...string) bool {
	for _, tag := range tags {
		if n.is(yaml.ScalarNode) && n.n.Tag == tag {
			return true
		}
	}
	return false
}

// IsNull reports whether there is no value: nothing, null or ~.
func (n Node) IsNull() bool { return n.n == nil || n.n.Kind == 0 || n.hasTag("!!null") }

// IsList reports whether the value is a list.
func (n Node) IsList() bool { return n.is(yaml.SequenceNode) }

// IsMapping reports whether the value is a mapping.
func (n Node) IsMapping() bool { return n.is(yaml.MappingNode) }

// IsText reports whether the value is a text: not a list, a mapping or null, nor, unless it is quoted, a number or a boolean.
func (n Node) IsText() bool { return n.hasTag("!!str", "!!timestamp") }

// Text reads a text. A number or a boolean is a text, as the file has it.
func (n Node) Text(what string) (string, bool) {
	if !n.is(yaml.ScalarNode) || n.IsNull() {
		n.Fault("%s is %s, want a text", what, n)
		return "", false
	}
	return n.n.Value, true
}

// Bool reads true or false, and the words that older versions of YAML have for them.
func (n Node) Bool(what string) bool {
	if n.is(yaml.ScalarNode) && n.n.Style&^yaml.TaggedStyle == 0 { // it is not quoted
		switch strings.ToLower(n.n.Value) {
		case "true", "yes", "on", "y":
			return true
		case "false", "no", "off", "n":
			return false
		}
	}
	n.Fault("%s is %s, want true or false", what, n)
	return false
}

// Uint reads a whole number, and returns least after a fault.
func (n Node) Uint(what string, least, most uint64) uint64 {
	if n.hasTag("!!int") {
		v, err := strconv.ParseUint(strings.TrimPrefix(n.n.Value, "+"), 0, 64)
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
	items := make([]Node, len(n.n.Content))
	for i, v := range n.n.Content {
		items[i] = n.file.node(v)
	}
	return items
}

// Pair is a key of a mapping and its value.
type Pair struct {
	Key   string
	At    Node // the key
	Value Node
}

// Pairs returns the pairs of a mapping in the order of the file: its own and then those that it merges. Null has none. A
// duplicate key, or one that is no text, is a fault.
func (n Node) Pairs(what string) []Pair {
	var pairs []Pair
	n.pairs(what, &pairs, make(map[string]bool))
	return pairs
}

// pairs adds the pairs whose keys are not in seen.
func (n Node) pairs(what string, to *[]Pair, seen map[string]bool) {
	if !n.IsMapping() {
		if !n.IsNull() {
			n.Fault("%s is %s, want keys and values", what, n)
		}
		return
	}
	own := make(map[string]int, len(n.n.Content)/2)
	var merged []Node
	for i := 0; i+1 < len(n.n.Content); i += 2 {
		at, value := n.file.node(n.n.Content[i]), n.file.node(n.n.Content[i+1])
		if at.hasTag("!!merge") {
			merged = append(merged, value.Items()...)
			continue
		}
		if !at.is(yaml.ScalarNode) || at.IsNull() {
			at.Fault("%s has a key that is %s, want a text", what, at)
			continue
		}
		key := at.n.Value
		if first, twice := own[key]; twice {
			at.Fault("%q is here twice, first in line %d", key, first)
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
	var number float64
	switch {
	case n.IsNull():
		return nil
	case n.IsList():
		list := make([]any, 0, len(n.n.Content))
		for _, item := range n.Items() {
			list = append(list, item.Any())
		}
		return list
	case n.IsMapping():
		mapping := make(map[string]any)
		for _, p := range n.Pairs("a mapping") {
			mapping[p.Key] = p.Value.Any()
		}
		return mapping
	case n.hasTag("!!bool"):
		return n.Bool("a value")
	case n.hasTag("!!int", "!!float") && n.n.Decode(&number) == nil:
		return number
	}
	return n.n.Value
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
	case n.IsText():
		return strconv.Quote(n.n.Value)
	}
	return n.n.Value
}
