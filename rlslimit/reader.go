package rlslimit

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader walks over the nodes of a file, and collects what is wrong with them. The parser is the next
// version of the reference's, so that both read a file alike.
type reader struct {
	file     string
	faults   []error
	warnings []error
	visits   int // of nodes, those behind aliases included
}

const (
	mostVisits = 1 << 20 // what aliases of aliases multiply to
	mostLevels = 64      // of descriptors
)

func (r *reader) fault(n *yaml.Node, format string, args ...any) {
	r.faults = append(r.faults, newFault(r.file, n.Line, n.Column, format, args...))
}

func (r *reader) warn(n *yaml.Node, format string, args ...any) {
	r.warnings = append(r.warnings, newFault(r.file, n.Line, n.Column, format, args...))
}

// plain returns what an alias stands for.
func plain(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// fields reads a mapping whose keys are known. A key that the reference knows, but not here, is ignored with a
// warning, as the reference ignores it.
func (r *reader) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	seen := make(map[string]bool)
	r.mapping(n, what, seen, func(key, value *yaml.Node) {
		read, ok := known[key.Value]
		switch {
		case ok:
			read(value)
		case slices.Contains(referenceKeys, key.Value):
			r.warn(key, "%s has no %q: it is ignored", what, key.Value)
		default:
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			r.fault(key, "config error, unknown key %s, want one of %s", quote(key.Value), strings.Join(names, ", "))
		}
	})
}

// mapping calls read for each key of a mapping that was not seen, the mapping's own before those that it merges.
func (r *reader) mapping(n *yaml.Node, what string, seen map[string]bool, read func(key, value *yaml.Node)) {
	at := n
	n = plain(n)
	if r.visits += len(n.Content) + 1; r.visits > mostVisits {
		if len(r.faults) == 0 || r.visits < 2*mostVisits {
			r.visits = 2 * mostVisits
			r.fault(at, "its aliases stand for more than %d values", mostVisits)
		}
		return
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fault(at, "%s is %s, want keys and values", what, describe(n))
		return
	}
	own := make(map[string]int)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := plain(n.Content[i]), n.Content[i+1]
		switch {
		case key.Tag == "!!merge":
			merges = append(merges, value)
			continue
		case key.Kind != yaml.ScalarNode || key.Tag != "!!str":
			r.fault(n.Content[i], "config error, key is not of type string: %s", describe(key))
			continue
		}
		if first, twice := own[key.Value]; twice {
			r.fault(n.Content[i], "%s is here twice, first in line %d", quote(key.Value), first)
			continue
		}
		own[key.Value] = key.Line
		if !seen[key.Value] {
			read(n.Content[i], value)
		}
	}
	for key := range own {
		seen[key] = true
	}
	for _, m := range merges {
		if from := plain(m); from.Kind == yaml.SequenceNode {
			for _, item := range from.Content {
				r.mapping(item, what, seen, read)
			}
			continue
		}
		r.mapping(m, what, seen, read)
	}
}

// items returns the mappings of a list.
func (r *reader) items(n *yaml.Node, what string) []*yaml.Node {
	at := n
	switch n = plain(n); {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil
	case n.Kind != yaml.SequenceNode:
		r.fault(at, "%s is %s, want a list", what, describe(n))
		return nil
	}
	items := make([]*yaml.Node, 0, len(n.Content))
	for _, item := range n.Content {
		if plain(item).Kind != yaml.MappingNode {
			r.fault(item, "config error, yaml file contains list of type other than map: %s", describe(plain(item)))
			continue
		}
		items = append(items, item)
	}
	return items
}

// text reads a text; a whole number, true and the like are texts as they stand.
func (r *reader) text(n *yaml.Node, what string) string {
	at := n
	switch n = plain(n); {
	case n.Kind != yaml.ScalarNode:
		r.fault(at, "%s is %s, want a text", what, describe(n))
	case n.Tag == "!!null":
	case n.Tag == "!!float":
		r.fault(at, "%s is the fraction %s, want a text: put it in quotes", what, n.Value)
	default:
		return n.Value
	}
	return ""
}

// boolean reads true or false.
func (r *reader) boolean(n *yaml.Node, what string) (v bool) {
	if t := plain(n); t.Kind != yaml.ScalarNode || t.Tag != "!!null" && t.Decode(&v) != nil {
		r.fault(n, "%s is %s, want true or false", what, describe(t))
	}
	return v
}

// number reads a whole number.
func (r *reader) number(n *yaml.Node, what string, least uint32) (v uint32) {
	t := plain(n)
	null := t.Kind == yaml.ScalarNode && t.Tag == "!!null"
	if !null && (t.Kind != yaml.ScalarNode || t.Tag != "!!int" || t.Decode(&v) != nil || v < least) {
		r.fault(n, "%s is %s, want a whole number from %d to 4294967295", what, describe(t), least)
		return least
	}
	return v
}

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Tag == "!!null":
		return "empty"
	case n.Tag == "!!str":
		return quote(n.Value)
	}
	return n.Value
}

func quote(s string) string { return "'" + s + "'" }

// parse returns the first document of a text.
func (r *reader) parse(text []byte) *yaml.Node {
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	var document, second yaml.Node
	if err := d.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			r.faults = append(r.faults, syntaxFault(r.file, err))
			return nil
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}
	}
	if err := d.Decode(&second); err == nil {
		r.fault(&second, "a second document, of which nothing would be read: put it in a file of its own")
	} else if !errors.Is(err, io.EOF) {
		r.faults = append(r.faults, syntaxFault(r.file, err))
		return nil
	}
	return document.Content[0]
}

// syntaxFault returns the fault of a text that is no YAML.
func syntaxFault(file string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if after, ok := strings.CutPrefix(text, "line "); ok {
		if number, rest, ok := strings.Cut(after, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, text = n, rest
			}
		}
	}
	return newFault(file, line, 1, "error loading config file: %s", text)
}

// referenceKeys are those that the reference accepts anywhere.
var referenceKeys = []string{
	"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode", "quota_mode",
	"name", "replaces", "detailed_metric", "value_to_metric", "share_threshold",
}
