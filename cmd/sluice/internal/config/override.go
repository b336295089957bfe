package config

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/spec"
)

// Overrides are other limits for some keys of a policy. The zero value has none.
type Overrides struct {
	All []Override // in the order of the file

	exact    map[string]int // indexes of those without a network, by name
	networks []int          // of the others, the narrowest first
}

// Override is limits in place of a policy's, for keys that begin with some values. Each of those keys has limiters of its
// own.
type Override struct {
	Name   string // tells it from the policy's others
	At     Position
	Limits []spec.Limit
	Places []Position // of Limits

	begin []Value // a Network that is no client's stands for all clients in it
}

// Find returns the index of the override for a key: an exact one, or else that of the narrowest network. false: none.
func (o *Overrides) Find(key []Value) (int, bool) {
	for n := len(key); n > 0 && len(o.exact) > 0; n-- {
		if i, ok := o.exact[join(key[:n])]; ok {
			return i, true
		}
	}
	for _, i := range o.networks {
		if o.All[i].matches(key) {
			return i, true
		}
	}
	return 0, false
}

func (o *Override) matches(key []Value) bool {
	for i, want := range o.begin {
		if isWide(want.Network) {
			if !key[i].Network.IsValid() || !want.Network.Contains(key[i].Network.Addr()) {
				return false
			}
		} else if key[i].Text != want.Text {
			return false
		}
	}
	return true
}

// isWide reports whether a network is more than one client's.
func isWide(n netip.Prefix) bool { return n.IsValid() && !isClient(n) }

// readOverrides reads the overrides of a policy whose key has been read.
func (p *Policy) readOverrides(r *reader, n ast.Node) {
	if len(p.Key) == 0 {
		if _, bad := p.at["key"]; bad {
			return
		}
		r.fault(p.at["overrides"], "overrides are for some keys, and the policy has none: add key, such as key: ip")
		return
	}
	o := &p.Overrides
	o.exact = make(map[string]int)
	o.read(r, p.Key, nil, n)
	for i := range o.All {
		if slices.ContainsFunc(o.All[i].begin, func(v Value) bool { return isWide(v.Network) }) {
			o.networks = append(o.networks, i)
		} else {
			o.exact[o.All[i].Name] = i
		}
	}
	slices.SortStableFunc(o.networks, func(a, b int) int { return compareWidths(o.All[a].begin, o.All[b].begin) })
}

// compareWidths puts what is narrower first: by the first values, then by the second.
func compareWidths(a, b []Value) int {
	for i := range min(len(a), len(b)) {
		if c := cmp.Compare(width(a[i]), width(b[i])); c != 0 {
			return c
		}
	}
	return len(b) - len(a)
}

func width(v Value) int {
	if !isWide(v.Network) {
		return 0
	}
	return v.Network.Addr().BitLen() - v.Network.Bits() + 1
}

// read reads overrides for keys that begin with some values. A value that is a mapping is about the part after those.
func (o *Overrides) read(r *reader, key Key, begin []Value, n ast.Node) {
	for _, pair := range r.pairs(n, "overrides") {
		v, ok := key[len(begin)].readValue(r, pair)
		if !ok {
			continue
		}
		values := append(slices.Clone(begin), v)
		if isMapping(r.plain(pair.value)) {
			if len(values) == len(key) {
				r.fault(pair.at, "overrides: %q has keys of its own, and key has no part for them", pair.key)
				continue
			}
			o.read(r, key, values, pair.value)
			continue
		}
		made := Override{Name: join(values), At: pair.at, begin: values}
		for _, item := range r.items(pair.value) {
			if l, ok := readLimit(r, item); ok {
				made.Limits, made.Places = append(made.Limits, l), append(made.Places, position(item))
			}
		}
		if len(r.items(pair.value)) == 0 {
			r.fault(pair.at, "overrides: %q has no limit, want one such as 1000/s, or unlimited", pair.key)
		}
		if i := slices.IndexFunc(o.All, func(other Override) bool { return other.Name == made.Name }); i >= 0 {
			r.fault(pair.at, "overrides: %q is here twice, first in line %d", pair.key, o.All[i].At.Line)
			continue
		}
		o.All = append(o.All, made)
	}
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// readValue reads a value of the part; for KeyIP also a network.
func (p KeyPart) readValue(r *reader, at pair) (Value, bool) {
	if p.Kind != KeyIP {
		v, err := p.value(at.key)
		if err != nil {
			r.fault(at.at, "overrides: %v", err)
		}
		return v, err == nil
	}
	n, err := parseNetwork(at.key)
	switch {
	case err != nil:
		r.fault(at.at, "overrides has %q, want an address or a network such as 10.0.0.0/8", at.key)
	case n.Addr().Is6() && n.Bits() > clientBits6:
		one := netip.PrefixFrom(n.Addr(), clientBits6).Masked()
		r.fault(at.at, "overrides has %q, but to key ip all of %s is one client: write %s", at.key, one, strconv.Quote(one.String()))
	case isClient(n):
		return Client(n), true
	default:
		return Value{n.String(), n}, true
	}
	return Value{}, false
}

// checkPatterns finds overrides for patterns that no route has.
func (o *Overrides) checkPatterns(r *reader, key Key, routes []Route) {
	for _, one := range o.All {
		for i, v := range one.begin {
			has := func(to Route) bool {
				pattern, err := route.Pattern(to.Pattern)
				return err == nil && pattern == v.Text
			}
			if key[i].Kind == KeyPattern && !slices.ContainsFunc(routes, has) {
				r.fault(one.At, "overrides: no route has the pattern %q", v.Text)
			}
		}
	}
}
