package run

import (
	"regexp"
	"strconv"
	"strings"
)

// template is a command with replacement strings, as GNU parallel has them.
type template struct{ words [][]token }

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

var (
	replacement = regexp.MustCompile(`\{(?:#|%|(-?[0-9]+|)(\.|//|/\.|/)?)\}`)
	kinds       = map[string]tokenKind{"": plain, ".": noExt, "/": base, "//": dir, "/.": baseNoExt}
)

// parseTemplate reads a command. One without a replacement string gets the input appended.
func parseTemplate(words []string) template {
	var t template
	found := false
	for _, w := range words {
		tokens := parseWord(w)
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

func parseWord(w string) (tokens []token) {
	from := 0
	for _, m := range replacement.FindAllStringSubmatchIndex(w, -1) {
		if m[0] > from {
			tokens = append(tokens, token{text: w[from:m[0]]})
		}
		from = m[1]
		switch w[m[0]:m[1]] {
		case "{#}":
			tokens = append(tokens, token{kind: number})
			continue
		case "{%}":
			tokens = append(tokens, token{kind: slot})
			continue
		}
		k := token{}
		if m[4] >= 0 {
			k.kind = kinds[w[m[4]:m[5]]]
		} else {
			k.kind = plain
		}
		if m[3] > m[2] {
			k.column, _ = strconv.Atoi(w[m[2]:m[3]]) // one that is too large has no column
		}
		tokens = append(tokens, k)
	}
	if from < len(w) || len(tokens) == 0 {
		tokens = append(tokens, token{text: w[from:]})
	}
	return tokens
}

// expand returns the command for a row. A word that is {} alone becomes as many words as there are arguments.
func (t template) expand(r row, seq, slot int) []string {
	out := make([]string, 0, len(t.words)+len(r.whole))
	for _, w := range t.words {
		if len(w) == 1 && w[0].kind.ofInput() && w[0].column == 0 {
			for _, v := range r.whole {
				out = append(out, w[0].kind.of(v))
			}
			continue
		}
		out = append(out, expandWord(w, r, seq, slot))
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
