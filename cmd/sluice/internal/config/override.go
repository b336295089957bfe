package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
)

// Overrides are other limits for some values of the first part of a policy's key. The zero value has none.
type Overrides struct {
	All []Override // overrides in the order of the file

	byValue map[string]int // indexes
	widths  []int          // bits of the networks in byValue, the narrowest first
}

// Override is limits in place of a policy's, for keys that start with a value. Each of those keys has limiters of its own.
type Override struct {
	Name   string // tells it from the policy's others; never ""
	Value  string // value of the first part of the key; for KeyIP a client or a network of clients
	At     yamlconf.Place
	Limits []Limit
}

// Find returns the index of the override for a key, or false: that of its first value, or otherwise of the narrowest network
// with the client.
func (o *Overrides) Find(key []string) (int, bool) {
	if len(o.All) == 0 {
		return 0, false
	}
	if i, ok := o.byValue[key[0]]; ok || len(o.widths) == 0 {
		return i, ok
	}
	client, err := ParseNetwork(key[0])
	if err != nil {
		return 0, false
	}
	for _, bits := range o.widths {
		if i, ok := o.byValue[netip.PrefixFrom(client.Addr(), bits).Masked().String()]; ok {
			return i, true
		}
	}
	return 0, false
}

// Of returns the limits of the override of that name, or false if there is no such override.
func (o *Overrides) Of(name string) ([]Limit, bool) {
	value, isName := strings.CutPrefix(name, "=")
	if i, ok := o.byValue[value]; ok && isName {
		return o.All[i].Limits, true
	}
	return nil, false
}

// readOverrides reads the overrides of a policy whose key has been read.
func (p *Policy) readOverrides(n yamlconf.Node, key string) {
	if !p.has("key") {
		n.Fault("overrides requires key; add one, such as key: ip")
		return
	}
	o := &p.Overrides
	o.byValue = make(map[string]int)
	for _, pair := range n.Pairs(key) {
		made := Override{At: pair.At.Place()}
		limits(&made.Limits, ofRequests)(pair.Value, pair.Key)
		if len(p.Key) == 0 {
			continue // it has a fault
		}
		value, network, err := p.Key[0].override(pair.Key)
		if err != nil {
			pair.At.Fault("overrides: %v", err)
			continue
		}
		made.Name, made.Value = "="+value, value
		if i, twice := o.byValue[value]; twice {
			pair.At.Fault("overrides: %q is here twice, first in line %d", pair.Key, o.All[i].At.Line)
			continue
		}
		o.byValue[value] = len(o.All)
		o.All = append(o.All, made)
		if network.IsValid() && !isClient(network) && !slices.Contains(o.widths, network.Bits()) {
			o.widths = append(o.widths, network.Bits())
		}
	}
	slices.Sort(o.widths)
	slices.Reverse(o.widths)
}

// override returns the value of an override: for KeyIP also of a network, which it returns too.
func (p KeyPart) override(text string) (value string, network netip.Prefix, err error) {
	if p.Kind != KeyIP {
		value, err = p.value(text)
		return value, network, err
	}
	network, err = parseClients(text)
	return Client(network), network, err
}

// checkPatterns finds overrides for patterns that no route has.
func (o *Overrides) checkPatterns(fault faultFunc, key Key, mux *route.Mux) {
	for _, one := range o.All {
		if key[0].Kind == KeyPattern && !mux.Has(one.Value) {
			fault(one.At, "overrides: no route has the pattern %q", one.Value)
		}
	}
}
