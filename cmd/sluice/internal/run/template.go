package run

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// template is a command with replacement strings, as GNU parallel has them.
type template struct {
	words [][]token
	each  bool // a word with {} becomes as many words as there are arguments: -N
}

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

var kinds = map[string]tokenKind{"": plain, ".": noExt, "/": base, "//": dir, "/.": baseNoExt}

// syntax says how replacement strings are written.
type syntax struct {
	sign  string   // in place of {}; "": {}
	names []string // of the columns: {NAME} is {1} and so on
}

// parse reads a command. One without a replacement string gets the input appended.
func (s syntax) parse(words []string) template {
	var t template
	found := false
	for _, w := range words {
		tokens := s.parseWord(w)
		for _, k := range tokens {
			found = found || k.kind != literal
		}
		t.words = append(t.words, tokens)
	}
	if !found {
		t.words = append(t.words, []token{{kind: plain}})
	}
	return t
}

// pattern matches a replacement string: the sign, or braces around what the second group holds.
func (s syntax) pattern() *regexp.Regexp {
	sign := s.sign
	if sign == "" {
		sign = "{}"
	}
	columns := make([]string, 0, 1+len(s.names))
	columns = append(columns, "-?[0-9]+")
	for _, name := range s.names {
		columns = append(columns, regexp.QuoteMeta(name))
	}
	return regexp.MustCompile(`(` + regexp.QuoteMeta(sign) + `)|\{(#|%|(` + strings.Join(columns, "|") + `)(//|/\.|/|\.)?|(//|/\.|/|\.))\}`)
}

// The groups of a pattern.
const (
	ofSign = 1 + iota
	ofBraces
	ofColumn
	ofColumnKind
	ofKind
)

func (s syntax) parseWord(w string) (tokens []token) {
	p := s.pattern()
	from := 0
	for _, at := range p.FindAllStringIndex(w, -1) {
		if at[0] > from {
			tokens = append(tokens, token{text: w[from:at[0]]})
		}
		from = at[1]
		tokens = append(tokens, s.token(p.FindStringSubmatch(w[at[0]:at[1]])))
	}
	if from < len(w) || len(tokens) == 0 {
		tokens = append(tokens, token{text: w[from:]})
	}
	return tokens
}

// token returns what a match of the pattern stands for.
func (s syntax) token(groups []string) token {
	switch {
	case groups[ofSign] != "":
		return token{kind: plain}
	case groups[ofBraces] == "#":
		return token{kind: number}
	case groups[ofBraces] == "%":
		return token{kind: slot}
	case groups[ofColumn] == "":
		return token{kind: kinds[groups[ofKind]]}
	}
	column := 1 + slices.Index(s.names, groups[ofColumn])
	if column == 0 {
		column, _ = strconv.Atoi(groups[ofColumn]) // one that is too large has no column
	}
	return token{kind: kinds[groups[ofColumnKind]], column: column}
}

// script returns the script of a command such as sh -c SCRIPT; nil if there is none.
func (t template) script() []token {
	word := func(i int) string {
		if i >= len(t.words) || len(t.words[i]) != 1 {
			return ""
		}
		return t.words[i][0].text
	}
	if len(t.words) < 3 || !shell.MatchString(word(0)) || !strings.HasPrefix(word(1), "-") || !strings.HasSuffix(word(1), "c") {
		return nil
	}
	return t.words[2]
}

var shell = regexp.MustCompile(`(^|/)(ba|da|z|k|a|mk)?sh$`)

// replaces reports whether any part of the input is put into a word.
func replaces(word []token) bool {
	return slices.ContainsFunc(word, func(k token) bool { return k.kind.ofInput() })
}

// expand returns the command for a row. A word that is {} alone becomes as many words as there are arguments.
func (t template) expand(r row, seq, slot int) []string {
	out := make([]string, 0, len(t.words)+len(r.whole))
	for _, w := range t.words {
		multiplies := (len(w) == 1 || t.each) && slices.ContainsFunc(w, token.isWhole)
		if !multiplies {
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

// column returns what {n} stands for; below 0, columns count from the end.
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

// of returns what an argument becomes.
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

// dirOf is Perl's dirname, which parallel uses: nothing is cleaned.
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

// quote writes words as a shell reads them.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quoteWord(w)
	}
	return strings.Join(quoted, " ")
}

var harmless = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoteWord puts a word in quotes if a shell would read it as something else, as parallel does.
func quoteWord(w string) string {
	if harmless.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'"'"'`) + "'"
}
