package httplimit

import (
	"strconv"
	"strings"
)

// parameters are the integers among an item's parameters.
type parameters map[string]int64

// parseList reads a list of structured fields (RFC 9651, section 4.2), and returns the
// parameters of its members. A list that does not parse is not ok, and has none.
func parseList(text string) (members []parameters, ok bool) {
	p := parser{strings.TrimLeft(text, " ")}
	for p.rest != "" {
		if p.next('(') {
			ok = p.innerList()
		} else {
			ok = p.bareItem(nil)
		}
		m := make(parameters)
		if !ok || !p.parameters(m) {
			return nil, false
		}
		members = append(members, m)
		p.rest = strings.TrimLeft(p.rest, " \t")
		if p.rest == "" {
			break
		}
		if !p.next(',') {
			return nil, false
		}
		p.rest = strings.TrimLeft(p.rest, " \t")
		if p.rest == "" {
			return nil, false
		}
	}
	return members, true
}

// parser cuts what it has read off the text.
type parser struct{ rest string }

// next cuts c off, if it is there.
func (p *parser) next(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// while cuts off the characters that are among these.
func (p *parser) while(is func(byte) bool) string {
	n := 0
	for n < len(p.rest) && is(p.rest[n]) {
		n++
	}
	cut := p.rest[:n]
	p.rest = p.rest[n:]
	return cut
}

// innerList reads what follows an opening parenthesis.
func (p *parser) innerList() bool {
	for {
		p.rest = strings.TrimLeft(p.rest, " ")
		if p.next(')') {
			return true
		}
		if !p.bareItem(nil) || !p.parameters(make(parameters)) {
			return false
		}
		if p.rest == "" || p.rest[0] != ' ' && p.rest[0] != ')' {
			return false
		}
	}
}

// parameters reads ;key=value, as often as it stands there. Of equal keys the last counts.
func (p *parser) parameters(into parameters) bool {
	for p.next(';') {
		p.rest = strings.TrimLeft(p.rest, " ")
		if p.rest == "" || !lower(p.rest[0]) && p.rest[0] != '*' {
			return false
		}
		key := p.while(func(c byte) bool { return lower(c) || digit(c) || strings.IndexByte("_-.*", c) >= 0 })
		delete(into, key)
		if p.next('=') && !p.bareItem(func(n int64) { into[key] = n }) {
			return false
		}
	}
	return true
}

// bareItem reads a value, and tells number, unless it is nil, of an integer.
func (p *parser) bareItem(number func(int64)) bool {
	if p.rest == "" {
		return false
	}
	switch c := p.rest[0]; {
	case c == '-' || digit(c):
		return p.number(number)
	case c == '"':
		return p.quoted()
	case c == ':':
		p.next(':')
		p.while(func(c byte) bool { return letter(c) || digit(c) || strings.IndexByte("+/=", c) >= 0 })
		return p.next(':')
	case c == '?':
		p.next('?')
		return p.next('0') || p.next('1')
	case c == '@':
		p.next('@')
		return p.number(nil)
	case c == '%':
		p.next('%')
		return p.quoted()
	case letter(c) || c == '*':
		p.while(func(c byte) bool { return letter(c) || digit(c) || strings.IndexByte(":/!#$%&'*+-.^_`|~", c) >= 0 })
		return true
	}
	return false
}

// number reads an integer of at most 15 digits, or a decimal.
func (p *parser) number(tell func(int64)) bool {
	sign := int64(1)
	if p.next('-') {
		sign = -1
	}
	whole := p.while(digit)
	if p.next('.') {
		fraction := p.while(digit)
		return len(whole) >= 1 && len(whole) <= 12 && len(fraction) >= 1 && len(fraction) <= 3
	}
	if len(whole) < 1 || len(whole) > 15 {
		return false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err == nil && tell != nil {
		tell(sign * n)
	}
	return err == nil
}

// quoted reads a string; of a display string, how it is escaped matters to nobody here.
func (p *parser) quoted() bool {
	if !p.next('"') {
		return false
	}
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return true
		case c == '\\':
			if !p.next('"') && !p.next('\\') {
				return false
			}
		case c < 0x20 || c > 0x7e:
			return false
		}
	}
	return false
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func lower(c byte) bool { return 'a' <= c && c <= 'z' }

func letter(c byte) bool { return lower(c) || 'A' <= c && c <= 'Z' }
