package clientip

import "strings"

// forNode returns the "for" parameter of an element of a Forwarded header (RFC 7239), or "" if the element is empty.
// It is not ok if quotes do not match, or if there is not exactly one such parameter.
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

// pair cuts the first name=value off an element. It skips empty pairs.
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
	// The value is followed by the next pair or the end.
	s = strings.TrimLeft(s, " \t")
	if !ok || value == "" || s != "" && s[0] != ';' {
		return "", "", "", false
	}
	return name, value, s, true
}

// unquote cuts off a quoted string.
func unquote(s string) (value, rest string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\': // no address contains an escape
			return "", "", false
		case '"':
			return s[1:i], s[i+1:], true
		}
	}
	return "", "", false
}
