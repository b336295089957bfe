package yamlconf_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
)

// read returns the value of a text.
func read(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, yamlconf.Read("f", []byte(text), func(root yamlconf.Node) { v = root.Any() }))
	return v
}

func TestValues(t *testing.T) {
	for text, want := range map[string]any{
		"":                                nil,
		"# nothing":                       nil,
		"~":                               nil,
		"\ufeffa: b":                      map[string]any{"a": "b"},
		"\xff\xfea\x00:\x00 \x005\x00":    map[string]any{"a": 5.0},
		"%YAML 1.1\n---\na: b\n...\n":     map[string]any{"a": "b"},
		"a: x\ty":                         map[string]any{"a": "x\ty"},
		"a: !!str 5\nb: !!int 5":          map[string]any{"a": "5", "b": 5.0},
		"a: &x {b: 1}\nc: *x":             map[string]any{"a": map[string]any{"b": 1.0}, "c": map[string]any{"b": 1.0}},
		"a: &x 1\nb: &x 2\nc: *x":         map[string]any{"a": 1.0, "b": 2.0, "c": 2.0},
		"<<: {a: 1, b: 2}\na: 3":          map[string]any{"a": 3.0, "b": 2.0},
		"<<: [{a: 1}, {a: 2, b: 2}]":      map[string]any{"a": 1.0, "b": 2.0},
		"a: |\n  x\n  y\nb: >-\n  x\n  y": map[string]any{"a": "x\ny\n", "b": "x y"},
		"a: 'it''s'\nb: \"\\x41\\n\"":     map[string]any{"a": "it's", "b": "A\n"},
		"a: [0x10, 1.5, true, no]\r\n":    map[string]any{"a": []any{16.0, 1.5, true, "no"}},
	} {
		assert.Equal(t, want, read(t, text), "%q", text)
	}
}

func TestFaults(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("- &a0 [x, x]\n")
	for i := range 20 {
		_, _ = fmt.Fprintf(&bomb, "- &a%d [*a%d, *a%[2]d]\n", i+1, i)
	}
	for text, want := range map[string]string{
		"a: b\nc: \x00":       "f:2:4: error loading config file: control characters are not allowed (value: 0)",
		"a: b\nä: \xff":       "f:2:4: error loading config file: invalid leading UTF-8 octet (value: 255)",
		"%YAML 1.2\n---":      "f:1:1: error loading config file: found incompatible YAML document",
		"a: 1\nb: 2\na: 3":    `f:3:1: "a" is here twice, first in line 1`,
		"? [a]\n: b":          "f:1:3: x has a key that is a list, want a text",
		"{[a]: b}":            "f:1:2: x has a key that is a list, want a text",
		"- a":                 "f:1:1: x is a list, want keys and values",
		"a: 1\n---\nb: 2":     "f:2:1: a second document, of which nothing would be read: put it in a file of its own",
		"a: *b":               "f:1:4: error loading config file: unknown anchor 'b' referenced",
		"a: &b {c: *b}":       `f:1:11: the value of anchor "b" contains itself`,
		"a: [":                "f:1:4: error loading config file: did not find expected node content while parsing a flow node",
		"a: [b,\nc: {d":       "f:2:4: error loading config file: did not find expected ',' or '}' while parsing a flow mapping",
		"a:\n  b: 1\n c: 2\n": "f:3:2: error loading config file: did not find expected key while parsing a block mapping",
		"a:\n\tb: 1":          "f:2:1: error loading config file: the line is indented with a tab, which YAML does not allow; use spaces",
		"a:\n  \tb: 1\n":      "f:2:3: error loading config file: the line is indented with a tab, which YAML does not allow; use spaces",
		"a: [\n\tb,\n\t}":     "f:3:2: error loading config file: did not find expected node content while parsing a flow node",
		bomb.String():         "its aliases stand for more than 1048576 values",
		"a: " + strings.Repeat("[", 2001) + strings.Repeat("]", 2001): "values stand in more than 1000 others",
	} {
		err := yamlconf.Read("f", []byte(text), func(root yamlconf.Node) {
			for _, p := range root.Pairs("x") {
				_ = p.Value.Any()
			}
		})
		require.ErrorContains(t, err, want, "%q", text)
		_, ok := errors.AsType[*yamlconf.Fault](err)
		assert.True(t, ok)
	}
}

// A fault is reported once for its place, however often an alias stands for it.
func TestManyFaults(t *testing.T) {
	err := yamlconf.Read("f", []byte("a: &x later\nb: [*x, *x]\nc: sooner"), func(root yamlconf.Node) {
		pairs := root.Pairs("x")
		pairs[2].Value.Bool("c")
		for _, item := range pairs[1].Value.Items() {
			item.Uint("b", 1, 9)
		}
		pairs[0].At.Fault("last")
		pairs[0].At.Fault("last")
	})
	require.EqualError(t, err, strings.Join([]string{
		`f:3:4: c is "sooner", want true or false`,
		`f:2:5: b is "later", want a whole number from 1 to 9`,
		`f:2:9: b is "later", want a whole number from 1 to 9`,
		`f:1:1: last`,
	}, "\n"))
	err = yamlconf.Read("f", []byte(strings.Repeat("- x\n", 500)), func(root yamlconf.Node) {
		for i, item := range root.Items() {
			item.Fault("%d", i)
		}
	})
	require.ErrorContains(t, err, "f:100:3: 99\nf: and 400 more errors")
}

func TestScalars(t *testing.T) {
	for text, want := range map[string]string{
		"true": "true", "Yes": "true", "off": "false", "'yes'": "fault", "1": "fault",
	} {
		got := "fault"
		if v := false; yamlconf.Read("f", []byte(text), func(n yamlconf.Node) { v = n.Bool("x") }) == nil {
			got = strconv.FormatBool(v)
		}
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"5": "5", "0x10": "16", "010": "8", "0o10": "8", "1_000": "1000", "4294967295": "4294967295",
		"-1": "fault", "4294967296": "fault", "5.0": "fault", "'5'": "fault", "!!str 5": "fault", "99999999999999999999": "fault",
	} {
		got := "fault"
		if v := uint64(0); yamlconf.Read("f", []byte(text), func(n yamlconf.Node) { v = n.Uint("x", 0, 1<<32-1) }) == nil {
			got = strconv.FormatUint(v, 10)
		}
		assert.Equal(t, want, got, text)
	}
}

// Whatever a file contains, reading ends, without a panic.
func FuzzRead(f *testing.F) {
	f.Add("a: &a [*a]\nb: !!str\n<<: *c")
	f.Add("? a\n: {b: [c, *d], <<: [e]}")
	f.Fuzz(func(t *testing.T, text string) {
		_ = yamlconf.Read("f", []byte(text), func(root yamlconf.Node) {
			_ = root.Any()
			_ = root.String()
		})
	})
}
