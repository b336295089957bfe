package yamlconf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Reader says how faults are worded. The zero value is ready to use.
type Reader struct {
	Quote func(string) string // quotes a value in a fault; nil means [strconv.Quote]
}

// Read is [Reader.Read] of the zero Reader.
func Read(file string, text []byte, read func(root Node)) error {
	return Reader{}.Read(file, text, read)
}

// Read parses the text of a file and calls read with the file's value, which is null if the file is empty. It returns
// all faults, joined in the order in which they were found, each a [*Fault]. It does not call read if the text is not YAML.
func (r Reader) Read(file string, text []byte, read func(root Node)) error {
	f := &faults{file: file, quote: r.Quote}
	if f.quote == nil {
		f.quote = strconv.Quote
	}
	text = decode(text)
	if !valid(f, text) {
		return f.err()
	}
	// Without a last line feed the parser does not fold the last line of a text.
	parsed, err := parse(append(bytes.Clone(text), '\n'))
	if err != nil {
		f.add(placeOfError(err), "error loading config file: %s", messageOf(err))
		return f.err()
	}
	body, second := documents(parsed)
	if second != nil {
		f.add(placeOfToken(second.Start), "a second document, of which nothing would be read: put it in a file of its own")
	}
	m := &measure{faults: f, anchors: make(map[string]*anchor), targets: make(map[*ast.AliasNode]ast.Node)}
	if body != nil && !m.check(body) {
		return f.err()
	}
	d := &document{faults: f, targets: m.targets}
	if body == nil {
		body = ast.Null(token.New("", "", &token.Position{Line: 1, Column: 1}))
	}
	read(d.node(body))
	return f.err()
}

// parse parses a text. Keys that stand twice are found by Pairs, which knows more about them.
func parse(text []byte) (_ *ast.File, err error) {
	defer func() {
		if recover() != nil { // of the parser
			err = errors.New("the text is not YAML")
		}
	}()
	return parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
}

// documents returns the value of the first document, or nil, and the second document, or nil.
func documents(f *ast.File) (body ast.Node, second *ast.DocumentNode) {
	first := true
	for _, d := range f.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); directive || d.Body == nil && d.Start == nil {
			continue
		}
		if !first {
			return body, d
		}
		body, first = d.Body, false
	}
	return body, nil
}

// decode returns the text in UTF-8, without a byte order mark.
func decode(text []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return bytes.TrimPrefix(text, []byte("\ufeff"))
	}
	units := make([]uint16, 0, len(text)/2)
	for i := 2; i+1 < len(text); i += 2 {
		units = append(units, order.Uint16(text[i:]))
	}
	return []byte(string(utf16.Decode(units)))
}

// valid reports whether a text has only characters that YAML allows. It adds a fault for the first other one.
func valid(f *faults, text []byte) bool {
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		bad := c == utf8.RuneError && n == 1
		if bad || c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			before := text[:i]
			line := bytes.LastIndexByte(before, '\n') + 1
			at := Place{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[line:]) + 1}
			if bad {
				f.add(at, "error loading config file: byte %#x is not UTF-8", text[i])
			} else {
				f.add(at, "error loading config file: control character %#U", c)
			}
			return false
		}
		i += n
	}
	return true
}

func placeOfError(err error) Place {
	if e, ok := asYAMLError(err); ok {
		return placeOfToken(e.GetToken())
	}
	return Place{1, 1}
}

func messageOf(err error) string {
	if e, ok := asYAMLError(err); ok {
		return e.GetMessage()
	}
	return err.Error()
}

func asYAMLError(err error) (e yaml.Error, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}
