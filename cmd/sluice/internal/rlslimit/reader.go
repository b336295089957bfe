package rlslimit

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
)

// reader reads the mappings of a file, and collects warnings.
type reader struct {
	file     string
	warnings []error
	bad      []string // files before that have errors
}

func (r *reader) warn(at yamlconf.Node, format string, args ...any) {
	r.warnings = append(r.warnings, yamlconf.NewFault(r.file, at.Place(), "warning: "+format, args...))
}

// upstreamKeys are those that envoyproxy/ratelimit accepts anywhere.
var upstreamKeys = []string{
	"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode", "quota_mode",
	"name", "replaces", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
}

// fields returns the values of a mapping by its keys, which must be known. A key that envoyproxy/ratelimit knows, but not here, is
// ignored with a warning, as envoyproxy/ratelimit ignores it. The zero Node stands for a key that is not there: it is null.
func (r *reader) fields(n yamlconf.Node, what string, known ...string) map[string]yamlconf.Node {
	f := make(map[string]yamlconf.Node, len(known))
	for _, p := range n.Pairs(what) {
		switch {
		case !p.At.IsText():
			p.At.Fault("config error, key is not of type string: %s", p.Key)
		case slices.Contains(known, p.Key):
			f[p.Key] = p.Value
		case slices.Contains(upstreamKeys, p.Key):
			r.warn(p.At, "%s has no %q: it is ignored", what, p.Key)
		default:
			slices.Sort(known)
			p.At.Fault("config error, unknown key '%s', want one of %s", p.Key, strings.Join(known, ", "))
		}
	}
	return f
}

// maps returns the mappings of a list.
func maps(n yamlconf.Node, what string) (items []yamlconf.Node) {
	if !n.IsNull() && !n.IsList() {
		n.Fault("%s is %s, want a list", what, n)
		return nil
	}
	for _, item := range n.Items() {
		if !item.IsMapping() {
			item.Fault("config error, yaml file contains list of type other than map: %s", item)
			continue
		}
		items = append(items, item)
	}
	return items
}

func text(n yamlconf.Node, what string) (v string) {
	if !n.IsNull() {
		v, _ = n.Text(what)
	}
	return v
}

func boolean(n yamlconf.Node, what string) bool { return !n.IsNull() && n.Bool(what) }

func whole(n yamlconf.Node, what string, least uint32) uint32 {
	if n.IsNull() {
		return least
	}
	return uint32(n.Uint(what, uint64(least), math.MaxUint32))
}

// metadata reads the metadata that a response passes to the client.
func metadata(n yamlconf.Node) *structpb.Struct {
	if n.IsNull() {
		return nil
	}
	if !n.IsMapping() {
		n.Fault("metadata is %s, want keys and values", n)
		return nil
	}
	values, _ := n.Any().(map[string]any)
	m, err := structpb.NewStruct(values)
	if err != nil {
		n.Fault("error parsing metadata: %v", err)
	}
	return m
}
