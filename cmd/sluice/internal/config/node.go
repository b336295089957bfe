package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/sluice-go/sluice/cmd/sluice/internal/duration"
)

// Position is a place in a file. Lines and columns count from 1.
type Position struct{ Line, Column int }

// Fault is one thing that is wrong with a file, and its place.
type Fault struct { //nolint:errname // a fault is what people call it, and FaultError says it twice
	File string
	At   Position
	Text string
}

// newFault returns a fault whose text is not longer than a few lines of a terminal, whatever the file says.
func newFault(file string, at Position, text string) *Fault {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return &Fault{file, at, text}
}

const maxText = 400

func (f *Fault) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.At.Line, f.At.Column, f.Text)
}

// reader walks over the nodes of a file and collects what is wrong with them.
type reader struct {
	file    string
	anchors map[string]ast.Node
	faults  []error
}

func position(n ast.Node) Position {
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken() // not the colon behind it
	}
	return at(t)
}

func at(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	return Position{t.Position.Line, t.Position.Column}
}

func (r *reader) fault(at Position, format string, args ...any) {
	r.faults = append(r.faults, newFault(r.file, at, fmt.Sprintf(format, args...)))
}

// plain returns what an alias or an anchor stands for.
func (r *reader) plain(n ast.Node) ast.Node {
	for {
		switch t := n.(type) {
		case *ast.AnchorNode:
			if r.anchors == nil {
				r.anchors = make(map[string]ast.Node)
			}
			r.anchors[t.Name.String()] = t.Value
			n = t.Value
		case *ast.AliasNode:
			value, ok := r.anchors[t.Value.String()]
			if !ok {
				r.fault(position(n), "no anchor is named %q", t.Value.String())
				return ast.Null(t.GetToken())
			}
			n = value
		default:
			return n
		}
	}
}

// pair is a key and its value.
type pair struct {
	key   string
	at    Position
	value ast.Node
}

// pairs returns the pairs of a mapping, and finds duplicate keys.
func (r *reader) pairs(n ast.Node, what string) []pair {
	var values []*ast.MappingValueNode
	switch t := r.plain(n).(type) {
	case *ast.MappingNode:
		values = t.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{t}
	case *ast.NullNode:
	default:
		r.fault(position(n), "%s is %s, want keys and values", what, describe(t))
	}
	pairs := make([]pair, 0, len(values))
	seen := make(map[string]Position, len(values))
	for _, v := range values {
		key := v.Key.GetToken().Value
		at := at(v.Key.GetToken())
		if first, twice := seen[key]; twice {
			r.fault(at, "%q is here twice, first in line %d", key, first.Line)
			continue
		}
		seen[key] = at
		pairs = append(pairs, pair{key, at, v.Value})
	}
	return pairs
}

// fields reads a mapping whose keys are known.
func (r *reader) fields(n ast.Node, what string, known map[string]func(ast.Node)) {
	for _, p := range r.pairs(n, what) {
		read, ok := known[p.key]
		if !ok {
			r.fault(p.at, "%s has no %q", what, p.key)
			continue
		}
		read(p.value)
	}
}

// items returns the values of a list; one value that is no list is a list of one.
func (r *reader) items(n ast.Node) []ast.Node {
	switch t := r.plain(n).(type) {
	case *ast.SequenceNode:
		return t.Values
	case *ast.NullNode:
		return nil
	}
	return []ast.Node{n}
}

// text reads a value that is no list and no mapping.
func (r *reader) text(n ast.Node, what string) (string, bool) {
	switch t := r.plain(n).(type) {
	case *ast.StringNode:
		return t.Value, true
	case *ast.LiteralNode:
		return strings.TrimSpace(t.Value.Value), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return t.GetToken().Value, true
	default:
		r.fault(position(n), "%s is %s, want a text", what, describe(t))
		return "", false
	}
}

func (r *reader) bool(n ast.Node, what string) bool {
	text, ok := r.text(n, what)
	if !ok {
		return false
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		r.fault(position(n), "%s is %q, want true or false", what, text)
	}
	return v
}

func (r *reader) duration(n ast.Node, what string) time.Duration {
	text, ok := r.text(n, what)
	if !ok {
		return 0
	}
	v, err := duration.Parse(text)
	if err != nil {
		r.fault(position(n), "%s: %v", what, err)
	}
	return v
}

func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.NullNode:
		return "empty"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	}
	return strconv.Quote(n.String())
}
