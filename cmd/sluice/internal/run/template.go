package run

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// template is a command with replacement strings, as GNU parallel has them.
type template [][]token

// token is text, or stands for a part of the input.
type token struct {
	text   string // if kind is literal
	kind   tokenKind
	column int // 0: {}; else {1} and so on, from the end {-1} and so on
}

type tokenKind uint8

const (
	literal   tokenKind = iota
	plain               // {}
	noExt               // {.}
	base                // {/}
	dir                 // {//}
	baseNoExt           // {/.}
	number              // {#}
	slot                // {%}
)

// suffixes are what a replacement string ends with; the longer ones first.
var suffixes = []struct {
	text string
	kind tokenKind
}{{"//", dir}, {"/.", baseNoExt}, {"/", base}, {".", noExt}, {"", plain}}

// parseTemplate reads a command. If it has no replacement string, the input is appended. names are the column names, or nil.
func parseTemplate(words, names []string) (t template, err error) {
	found := false
	for _, w := range words {
		tokens, err := parseWord(w, names)
		if err != nil {
			return nil, err
		}
		found = found || slices.ContainsFunc(tokens, func(k token) bool { return k.kind != literal })
		t = append(t, tokens)
	}
	if !found {
		t = append(t, []token{{kind: plain}})
	}
	return t, nil
}

var (
	braces       = regexp.MustCompile(`\{[^{}]*\}`)
	columnNumber = regexp.MustCompile(`^-?[0-9]+$`)
	columnName   = regexp.MustCompile(`^[\pL_][\pL\pN_ ./-]*$`)
)

func parseWord(w string, names []string) (tokens []token, err error) {
	from := 0
	for _, at := range braces.FindAllStringIndex(w, -1) {
		k, err := parseToken(w[at[0]:at[1]], names)
		if err != nil {
			return nil, err
		}
		if k.kind == literal {
			continue
		}
		if at[0] > from {
			tokens = append(tokens, token{text: w[from:at[0]]})
		}
		tokens = append(tokens, k)
		from = at[1]
	}
	if from < len(w) || len(tokens) == 0 {
		tokens = append(tokens, token{text: w[from:]})
	}
	return tokens, nil
}

// parseToken reads a pair of braces. Braces that are no replacement string are text. If the columns have names, an unknown
// name is an error.
func parseToken(text string, names []string) (k token, err error) {
	inside := text[1 : len(text)-1]
	switch inside {
	case "#":
		return token{kind: number}, nil
	case "%":
		return token{kind: slot}, nil
	}
	column, kind := inside, plain
	if !slices.Contains(names, inside) {
		for _, s := range suffixes {
			if before, ok := strings.CutSuffix(inside, s.text); ok {
				column, kind = before, s.kind
				break
			}
		}
	}
	k = token{kind: kind, column: 1 + slices.Index(names, column)}
	switch {
	case column == "":
		k.column = 0
	case k.column > 0:
	case columnNumber.MatchString(column):
		k.column, _ = strconv.Atoi(column) // a number that is too large has no column
		if names != nil && max(k.column, -k.column) > len(names) {
			return k, cli.Usage("%s is not a column; the header has %d", text, len(names))
		}
	case names != nil && columnName.MatchString(inside):
		return k, cli.Usage("%s is not a column; the header has %s", text, strings.Join(names, ", "))
	default:
		k = token{}
	}
	return k, nil
}

// script returns the script of a command such as sh -c SCRIPT, or nil.
func (t template) script() []token {
	word := func(i int) string {
		if i >= len(t) || len(t[i]) != 1 {
			return ""
		}
		return t[i][0].text
	}
	if len(t) < 3 || !shell.MatchString(word(0)) || !strings.HasPrefix(word(1), "-") || !strings.HasSuffix(word(1), "c") {
		return nil
	}
	return t[2]
}

var shell = regexp.MustCompile(`(^|/)(ba|da|z|k|a|mk)?sh$`)

// replaces reports whether a word contains a replacement string for the input.
func replaces(word []token) bool {
	return slices.ContainsFunc(word, func(k token) bool { return k.kind.ofInput() })
}

// expand returns the command for a row. A word that is {} alone becomes as many words as there are arguments.
func (t template) expand(r row, seq, slot int) []string {
	out := make([]string, 0, len(t)+len(r.whole))
	for _, w := range t {
		if len(w) != 1 || !w[0].isWhole() {
			out = append(out, expandWord(w, r, seq, slot))
			continue
		}
		for _, v := range r.whole {
			out = append(out, expandWord(w, row{whole: []string{v}, values: r.values}, seq, slot))
		}
	}
	return out
}

func expandWord(w []token, r row, seq, slotNumber int) string {
	if len(w) == 1 && w[0].kind == literal {
		return w[0].text
	}
	var b strings.Builder
	for _, k := range w {
		switch {
		case k.kind == literal:
			b.WriteString(k.text)
		case k.kind == number:
			b.WriteString(strconv.Itoa(seq))
		case k.kind == slot:
			b.WriteString(strconv.Itoa(slotNumber))
		case k.column == 0:
			for i, v := range r.whole {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(k.kind.of(v))
			}
		default:
			if v, ok := r.column(k.column); ok {
				b.WriteString(k.kind.of(v))
			}
		}
	}
	return b.String()
}

// column returns the value of {n}. If n is negative, columns count from the end.
func (r row) column(n int) (string, bool) {
	i := n - 1
	if n < 0 {
		i = len(r.values) + n
	}
	if i < 0 || i >= len(r.values) {
		return "", false
	}
	return r.values[i], true
}

// isWhole reports whether k stands for the whole line, or every argument.
func (k token) isWhole() bool { return k.kind.ofInput() && k.column == 0 }

func (k tokenKind) ofInput() bool { return k >= plain && k <= baseNoExt }

// of returns the part of an argument for which k stands.
func (k tokenKind) of(v string) string {
	switch k {
	case noExt:
		return withoutExt(v)
	case base:
		return v[strings.LastIndexByte(v, '/')+1:]
	case dir:
		return dirOf(v)
	case baseNoExt:
		return withoutExt(v[strings.LastIndexByte(v, '/')+1:])
	}
	return v
}

func withoutExt(v string) string {
	if dot := strings.LastIndexByte(v, '.'); dot > strings.LastIndexByte(v, '/') {
		return v[:dot]
	}
	return v
}

// dirOf is Perl's dirname, which GNU parallel uses: it does not clean the path.
func dirOf(v string) string {
	trimmed := strings.TrimRight(v, "/")
	if trimmed == "" && v != "" {
		return "/"
	}
	slash := strings.LastIndexByte(trimmed, '/')
	if slash < 0 {
		return "."
	}
	if d := strings.TrimRight(trimmed[:slash], "/"); d != "" {
		return d
	}
	return "/"
}

// quote returns the words quoted for a shell.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quoteWord(w)
	}
	return strings.Join(quoted, " ")
}

var harmless = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoteWord quotes a word if a shell would change it, as GNU parallel does.
func quoteWord(w string) string {
	if harmless.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'"'"'`) + "'"
}
