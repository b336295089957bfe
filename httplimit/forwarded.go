package httplimit

import "strings"

// lastElement cuts the last element off a Forwarded line (RFC 7239), and returns what it
// says the request is for. It is not ok if the line has quotes that do not match, or the
// element has no such parameter, or two.
func lastElement(line string) (rest, node string, ok bool) {
	// A quote can be told from the left only. Whoever wrote what stands there may be lying,
	// but then the quotes do not match in the end, and the last element shows it.
	start, from, quoted := 0, 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			start, from = i, i+1
		}
	}
	rest, element := line[:start], strings.Trim(line[from:], " \t")
	if element == "" {
		return rest, "", true
	}
	for element != "" {
		var name, value string
		if name, value, element, ok = pair(element); !ok {
			return "", "", false
		}
		if strings.EqualFold(name, "for") {
			if node != "" {
				return "", "", false
			}
			node = value
		}
	}
	return rest, node, node != ""
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
