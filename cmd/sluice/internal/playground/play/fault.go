package play

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/sluice-go/sluice/spec"
)

// Fault is an error in a limit's text, and its place: from From up to To, in units of UTF-16 as a page counts. Both are 0
// if it is about all of it.
type Fault struct {
	Message string `json:"message"`
	From    int    `json:"from"`
	To      int    `json:"to"`
}

// faults returns the errors in the texts of limits that are not played.
func faults(limits []string) []Result {
	results := make([]Result, len(limits))
	for i, text := range limits {
		if _, err := spec.ParseLimits(text); err != nil {
			results[i].Fault = newFault(text, err)
		}
	}
	return results
}

// newFault finds the word that err, of [spec.ParseLimits], quotes. If the text has it twice, it is the last one of the words up to
// which ParseLimits must read to find the error.
func newFault(text string, err error) *Fault {
	f := &Fault{Message: strings.TrimPrefix(err.Error(), "spec: ")}
	quoted, quoteErr := strconv.QuotedPrefix(f.Message)
	word, unquoteErr := strconv.Unquote(quoted)
	if quoteErr != nil || unquoteErr != nil {
		return f
	}
	words := fields(text)
	for n := range words {
		if _, e := spec.ParseLimits(text[:words[n].end]); e != nil && e.Error() == err.Error() {
			words = words[:n+1]
			break
		}
	}
	for _, w := range words {
		if strings.EqualFold(text[w.start:w.end], word) {
			f.From, f.To = units(text[:w.start]), units(text[:w.end])
		}
	}
	return f
}

// field is where a word is.
type field struct{ start, end int }

// fields is [strings.Fields] with places. A comma separates fields too.
func fields(text string) (words []field) {
	start := -1
	for i, c := range text + " " {
		switch space := unicode.IsSpace(c) || c == ','; {
		case !space && start < 0:
			start = i
		case space && start >= 0:
			words = append(words, field{start, i})
			start = -1
		}
	}
	return words
}

func units(text string) int { return len(utf16.Encode([]rune(text))) }
