package config

import (
	"net/netip"
	"slices"

	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/rlslimit/yamlconf"
)

// Overrides are other limits for some keys of a policy. The zero value has none.
type Overrides struct {
	All []Override // in the order of the file

	byName map[string]int // indexes, by name
	widths []width        // of the networks in names, the narrowest first
}

// width is how wide a network is.
type width struct {
	is6  bool
	bits int
}

// Override is limits in place of a policy's, for keys that start with some values. Each of those keys has limiters of its
// own.
type Override struct {
	Name   string // tells it from the policy's others
	At     yamlconf.Place
	Limits []Limit

	start []Value // a Network of more than one client stands for all clients in it
}

// Find returns the index of the override for a key, or false: an exact one, or otherwise the one with the narrowest network.
func (o *Overrides) Find(key []Value) (int, bool) {
	if len(o.byName) == 0 {
		return 0, false
	}
	if i, ok := o.find(key); ok {
		return i, true
	}
	ip := slices.IndexFunc(key, func(v Value) bool { return v.Network.IsValid() })
	if ip < 0 || len(o.widths) == 0 {
		return 0, false
	}
	client := key[ip].Network.Addr()
	wide := slices.Clone(key)
	for _, w := range o.widths {
		if w.is6 == client.Is6() {
			wide[ip].Text = netip.PrefixFrom(client, w.bits).Masked().String()
			if i, ok := o.find(wide); ok {
				return i, true
			}
		}
	}
	return 0, false
}

// find returns the index of the override for a key, or for the longest start of it that has one.
func (o *Overrides) find(key []Value) (int, bool) {
	for n := len(key); n > 0; n-- {
		if i, ok := o.byName[join(key[:n])]; ok {
			return i, true
		}
	}
	return 0, false
}

// isWide reports whether a network is more than one client's.
func isWide(n netip.Prefix) bool { return n.IsValid() && !isClient(n) }

// readOverrides reads the overrides of a policy whose key has been read.
func (p *Policy) readOverrides(n yamlconf.Node, _ string) {
	if len(p.Key) == 0 {
		if !p.has("key") { // else it has a fault
			n.Fault("overrides requires key; add one, such as key: ip")
		}
		return
	}
	o := &p.Overrides
	o.byName = make(map[string]int)
	o.read(p.Key, nil, n)
	for _, one := range o.All {
		for _, v := range one.start {
			w := width{v.Network.Addr().Is6(), v.Network.Bits()}
			if isWide(v.Network) && !slices.Contains(o.widths, w) {
				o.widths = append(o.widths, w)
			}
		}
	}
	slices.SortFunc(o.widths, func(a, b width) int { return b.bits - a.bits })
}

// read reads overrides for keys that start with some values. A value that is a mapping is about the part after those.
func (o *Overrides) read(key Key, start []Value, n yamlconf.Node) {
	for _, pair := range n.Pairs("overrides") {
		v, ok := key[len(start)].readValue(pair)
		if !ok {
			continue
		}
		values := append(slices.Clone(start), v)
		if pair.Value.IsMapping() {
			if len(values) == len(key) {
				pair.At.Fault("overrides: %q has keys of its own, and key has no part for them", pair.Key)
				continue
			}
			o.read(key, values, pair.Value)
			continue
		}
		made := Override{Name: join(values), At: pair.At.Place(), start: values}
		each(limits(&made.Limits))(pair.Value, "overrides")
		if len(pair.Value.Items()) == 0 {
			pair.At.Fault("overrides: %q has no limit, want one such as 1000/s, or unlimited", pair.Key)
		}
		if i, twice := o.byName[made.Name]; twice {
			pair.At.Fault("overrides: %q is here twice, first in line %d", pair.Key, o.All[i].At.Line)
			continue
		}
		o.byName[made.Name] = len(o.All)
		o.All = append(o.All, made)
	}
}

// readValue reads a value of the part; for KeyIP also a network.
func (p KeyPart) readValue(pair yamlconf.Pair) (Value, bool) {
	if p.Kind != KeyIP {
		v, err := p.value(pair.Key)
		if err != nil {
			pair.At.Fault("overrides: %v", err)
		}
		return v, err == nil
	}
	n, err := parseNetwork(pair.Key)
	switch {
	case err != nil:
		pair.At.Fault("overrides has %q, want an address or a network such as 10.0.0.0/8", pair.Key)
	case n.Addr().Is6() && n.Bits() > clientBits6:
		one := netip.PrefixFrom(n.Addr(), clientBits6).Masked().String()
		pair.At.Fault("overrides has %q, but to key ip all of %s is one client: write %q", pair.Key, one, one)
	case isClient(n):
		return Client(n), true
	default:
		return Value{n.String(), n}, true
	}
	return Value{}, false
}

// checkPatterns finds overrides for patterns that no route has.
func (o *Overrides) checkPatterns(fault faultFunc, key Key, mux *route.Mux) {
	for _, one := range o.All {
		for i, v := range one.start {
			if key[i].Kind == KeyPattern && !mux.Has(v.Text) {
				fault(one.At, "overrides: no route has the pattern %q", v.Text)
			}
		}
	}
}
