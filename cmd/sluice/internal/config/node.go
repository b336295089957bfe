package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	goccy "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
	"go.yaml.in/yaml/v3"

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
	file   string
	faults []error
}

// parse returns the value of a file's first document, and the second document, or nil. It returns nil for an empty file.
func parse(text []byte) (first, second *yaml.Node, err error) {
	defer func() {
		if v := recover(); v != nil { // of the parser
			err = fmt.Errorf("this is not YAML: %v", v)
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(text))
	var documents [2]*yaml.Node
	for i := range documents {
		var n yaml.Node
		if err := d.Decode(&n); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		documents[i] = &n
		if n.Kind == yaml.DocumentNode {
			documents[i] = n.Content[0]
		}
	}
	return documents[0], documents[1], nil
}

// syntaxFault reports where a file stops being YAML. The parser knows the line alone; another one, which is slow, has the column.
func syntaxFault(name string, text []byte, err error) error {
	at, message := Position{1, 1}, err.Error()
	if _, after, ok := strings.Cut(message, "yaml: line "); ok {
		number, rest, _ := strings.Cut(after, ": ")
		if line, err := strconv.Atoi(number); err == nil {
			at, message = Position{max(line, 1), 1}, rest
		}
	}
	if len(text) <= maxSlow {
		if e, ok := errors.AsType[goccy.Error](parseSlowly(text)); ok && e.GetToken() != nil && e.GetToken().Position != nil {
			p := e.GetToken().Position
			at, message = Position{max(p.Line, 1), max(p.Column, 1)}, e.GetMessage()
		}
	}
	return newFault(name, at, strings.TrimPrefix(message, "yaml: "))
}

const maxSlow = 64 << 10

func parseSlowly(text []byte) (err error) {
	defer func() { _ = recover() }()
	_, err = parser.ParseBytes(text, 0)
	return err
}

// position returns where a value is; for a mapping that is its first key.
func position(n *yaml.Node) Position {
	if n.Kind == yaml.MappingNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	return Position{max(n.Line, 1), max(n.Column, 1)}
}

func (r *reader) fault(at Position, format string, args ...any) {
	r.faults = append(r.faults, newFault(r.file, at, fmt.Sprintf(format, args...)))
}

// plain returns what an alias stands for.
func plain(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// pair is a key and its value.
type pair struct {
	key   string
	at    Position
	value *yaml.Node
}

// pairs returns the pairs of a mapping, and finds duplicate keys.
func (r *reader) pairs(n *yaml.Node, what string) []pair {
	m := plain(n)
	if isNull(m) {
		return nil
	}
	if m.Kind != yaml.MappingNode {
		r.fault(position(n), "%s is %s, want keys and values", what, describe(m))
		return nil
	}
	pairs := make([]pair, 0, len(m.Content)/2)
	seen := make(map[string]Position, len(m.Content)/2)
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, at := plain(m.Content[i]), position(m.Content[i])
		if key.Kind != yaml.ScalarNode {
			r.fault(at, "%s has %s for a key, want a text", what, describe(key))
			continue
		}
		if first, twice := seen[key.Value]; twice {
			r.fault(at, "%q is here twice, first in line %d", key.Value, first.Line)
			continue
		}
		seen[key.Value] = at
		pairs = append(pairs, pair{key.Value, at, m.Content[i+1]})
	}
	return pairs
}

// fields reads a mapping whose keys are known.
func (r *reader) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
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
func (r *reader) items(n *yaml.Node) []*yaml.Node {
	switch l := plain(n); {
	case l.Kind == yaml.SequenceNode:
		return l.Content
	case isNull(l):
		return nil
	}
	return []*yaml.Node{n}
}

// text reads a value that is no list and no mapping.
func (r *reader) text(n *yaml.Node, what string) (string, bool) {
	t := plain(n)
	if t.Kind != yaml.ScalarNode || isNull(t) {
		r.fault(position(n), "%s is %s, want a text", what, describe(t))
		return "", false
	}
	if t.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return strings.TrimSpace(t.Value), true
	}
	return t.Value, true
}

func (r *reader) bool(n *yaml.Node, what string) bool {
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

func (r *reader) duration(n *yaml.Node, what string) time.Duration {
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

func describe(n *yaml.Node) string {
	switch {
	case isNull(n):
		return "empty"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	}
	return strconv.Quote(n.Value)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" || n.Kind == 0 }

func isMapping(n *yaml.Node) bool { return plain(n).Kind == yaml.MappingNode }
