package httplimit

import (
	"iter"
	"strings"
)

// forwarded yields for whom the elements of a Forwarded line (RFC 7239) are, the last one first. It
// is not ok if an element has quotes that do not match, or not exactly one such parameter.
func forwarded(line string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		cuts := commas(line)
		for i := len(cuts) - 1; i > 0; i-- {
			if !yield(forNode(strings.Trim(line[cuts[i-1]+1:cuts[i]], " \t"))) {
				return
			}
		}
	}
}

// commas returns where the elements of a line end, the line's own end included, beginning with a
// comma before the line or, of a long line, at one of the last commas. A quote can be told only from
// the left. What a client wrote there may have a quote too many, but then the quotes do not match in
// the end, and the last element shows it.
func commas(line string) []int {
	cuts, quoted := []int{-1}, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			if len(cuts) > 4*maxEntries {
				cuts = append(cuts[:0], cuts[len(cuts)-2*maxEntries:]...)
			}
			cuts = append(cuts, i)
		}
	}
	return append(cuts, len(line))
}

// forNode returns the value of an element's parameter "for"; "" if the element is empty.
func forNode(element string) (node string, ok bool) {
	if element == "" {
		return "", true
	}
	for element != "" {
		var name, value string
		if name, value, element, ok = pair(element); !ok {
			return "", false
		}
		if strings.EqualFold(name, "for") {
			if node != "" {
				return "", false
			}
			node = value
		}
	}
	return node, node != ""
}

// pair cuts the first name=value off an element. Empty ones are passed over.
func pair(s string) (name, value, rest string, ok bool) {
	s = strings.TrimLeft(s, "; \t")
	if s == "" {
		return "", "", "", true
	}
	i := strings.IndexAny(s, `=;"`)
	if i <= 0 || s[i] != '=' {
		return "", "", "", false
	}
	name, s = strings.TrimRight(s[:i], " \t"), s[i+1:]
	if strings.HasPrefix(s, `"`) {
		value, s, ok = unquote(s)
	} else {
		i := strings.IndexAny(s, `;"`)
		if i < 0 {
			i = len(s)
		}
		value, s, ok = strings.TrimRight(s[:i], " \t"), s[i:], true
	}
	// After a value comes the next pair, or nothing.
	s = strings.TrimLeft(s, " \t")
	if !ok || value == "" || s != "" && s[0] != ';' {
		return "", "", "", false
	}
	return name, value, s, true
}

// unquote cuts a quoted string off.
func unquote(s string) (value, rest string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\': // no address needs one
			return "", "", false
		case '"':
			return s[1:i], s[i+1:], true
		}
	}
	return "", "", false
}
