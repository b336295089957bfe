package run

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// template is a command with replacement strings, as GNU parallel has them.
type template []word

// word is a word of a command, in parts: text and replacement strings.
type word []part

// part returns what it stands for in the command of a job.
type part func(r row, seq, slot int) []string

func text(s string) part { return func(row, int, int) []string { return []string{s} } }

func whole(r row, _, _ int) []string { return r.whole }

func number(_ row, seq, _ int) []string { return []string{strconv.Itoa(seq)} }

func slot(_ row, _, slot int) []string { return []string{strconv.Itoa(slot)} }

// column returns the value of {n}. If n is negative, columns count from the end.
func column(n int) part {
	return func(r row, _, _ int) []string {
		i := n - 1
		if n < 0 {
			i = len(r.values) + n
		}
		if i < 0 || i >= len(r.values) {
			return []string{""}
		}
		return r.values[i : i+1]
	}
}

// suffixes are what a replacement string ends with, and what it leaves of a path; the longer ones first.
var suffixes = []struct {
	text string
	of   func(string) string
}{
	{"//", dirOf},
	{"/.", func(v string) string { return withoutExt(baseOf(v)) }},
	{"/", baseOf},
	{".", withoutExt},
}

// parseTemplate reads a command. If it has no replacement string, the input is appended. names are the column names, or nil.
func parseTemplate(words, names []string) (t template, err error) {
	found := false
	for _, w := range words {
		parsed, replaces, err := parseWord(w, names)
		if err != nil {
			return nil, err
		}
		found = found || replaces
		t = append(t, parsed)
	}
	if !found {
		t = append(t, word{whole})
	}
	return t, nil
}

var (
	braces       = regexp.MustCompile(`\{[^{}]*\}`)
	columnNumber = regexp.MustCompile(`^-?[0-9]+$`)
	columnName   = regexp.MustCompile(`^[\pL_][\pL\pN_ ./-]*$`)
)

// parseWord reads a word. replaces reports whether it has a replacement string.
func parseWord(w string, names []string) (parsed word, replaces bool, err error) {
	from := 0
	for _, at := range braces.FindAllStringIndex(w, -1) {
		p, err := parseBraces(w[at[0]:at[1]], names)
		if err != nil {
			return nil, false, err
		}
		if p == nil {
			continue
		}
		if at[0] > from {
			parsed = append(parsed, text(w[from:at[0]]))
		}
		parsed = append(parsed, p)
		from = at[1]
	}
	replaces = len(parsed) > 0
	if from < len(w) || !replaces {
		parsed = append(parsed, text(w[from:]))
	}
	return parsed, replaces, nil
}

// parseBraces reads a pair of braces. It returns nil if they are no replacement string but text. If the columns have names, an
// unknown name is an error.
func parseBraces(braces string, names []string) (part, error) {
	inside := braces[1 : len(braces)-1]
	switch inside {
	case "#":
		return number, nil
	case "%":
		return slot, nil
	}
	name, of := inside, func(v string) string { return v }
	if !slices.Contains(names, inside) {
		for _, s := range suffixes {
			if before, ok := strings.CutSuffix(inside, s.text); ok {
				name, of = before, s.of
				break
			}
		}
	}
	n := 1 + slices.Index(names, name)
	values := whole
	switch {
	case name == "":
	case n > 0:
		values = column(n)
	case columnNumber.MatchString(name):
		n, _ = strconv.Atoi(name) // a number that is too large has no column
		if names != nil && max(n, -n) > len(names) {
			return nil, cli.Usage("%s is not a column; the header has %d", braces, len(names))
		}
		values = column(n)
	case names != nil && columnName.MatchString(name):
		return nil, cli.Usage("%s is not a column; the header has %s", braces, strings.Join(names, ", "))
	default:
		return nil, nil
	}
	return func(r row, seq, slot int) []string {
		parts := slices.Clone(values(r, seq, slot))
		for i, v := range parts {
			parts[i] = of(v)
		}
		return parts
	}, nil
}

// expand returns the command for a row. A word that is {} alone becomes as many words as there are arguments.
func (t template) expand(r row, seq, slot int) []string {
	out := make([]string, 0, len(t)+len(r.whole))
	for _, w := range t {
		if len(w) == 1 {
			out = append(out, w[0](r, seq, slot)...)
		} else {
			out = append(out, w.expand(r, seq, slot))
		}
	}
	return out
}

// expand returns the word as one, with spaces between the arguments.
func (w word) expand(r row, seq, slot int) string {
	var b strings.Builder
	for _, p := range w {
		b.WriteString(strings.Join(p(r, seq, slot), " "))
	}
	return b.String()
}

func baseOf(v string) string { return v[strings.LastIndexByte(v, '/')+1:] }

func withoutExt(v string) string {
	if dot := strings.LastIndexByte(v, '.'); dot > strings.LastIndexByte(v, '/') {
		return v[:dot]
	}
	return v
}

// dirOf is Perl's dirname, which GNU parallel uses: it does not clean the path.
func dirOf(v string) string {
	trimmed := strings.TrimRight(v, "/")
	dir := strings.TrimRight(trimmed[:len(trimmed)-len(baseOf(trimmed))], "/")
	switch {
	case dir != "":
		return dir
	case strings.HasPrefix(v, "/"):
		return "/"
	}
	return "."
}

// quote returns the words quoted for a shell.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = cli.Quote(w)
	}
	return strings.Join(quoted, " ")
}
