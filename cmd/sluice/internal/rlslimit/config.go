package rlslimit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
)

// Config is the rules of some domains, as read from files. It does not change. The zero Config has no domains.
// Create it with [Load] or [LoadMerged].
type Config struct {
	domains  []*domainConfig // domains in the order of the files
	warnings []error
	bad      []string // files with errors
}

// DefaultKeys is the number of values for which a rule has limiters if its domain does not set keys.
const DefaultKeys = 100_000

// domainConfig is one domain of a Config.
type domainConfig struct {
	name     string
	file     string
	line     int
	keys     int
	failOpen bool
	root     node
	rules    []*ruleConfig // rules of all nodes
}

// node is a descriptor: its limit, and the descriptors that may follow it.
type node struct {
	entry
	metadata  *structpb.Struct
	below     map[[2]string]*node // nodes below, by key and value
	wildcards map[string][]*node  // those below whose value contains *, by key, in the order of the file
	files     map[string]string   // files of those below, by names, as envoyproxy/ratelimit names them; each name is unique
	rule      *ruleConfig         // nil means no limit
}

// entry is the key and value of a descriptor.
type entry struct {
	key, value string // the value as the file has it: with * it is a wildcard, and "" is for any value
	shared     bool   // share_threshold
	inMetric   bool   // value_to_metric
}

func (e entry) isWildcard() bool { return strings.Contains(e.value, "*") }

// separates reports whether each value that the entry is for has a limiter of its own.
func (e entry) separates() bool { return !e.shared && (e.value == "" || e.isWildcard()) }

// matches reports whether a value starts with the text before the first * of a wildcard, ends with the text after the last, and
// has what is between them in order.
func (e entry) matches(value string) bool {
	first, wanted, _ := strings.Cut(e.value, "*")
	last := wanted[strings.LastIndexByte(wanted, '*')+1:]
	rest, ok := strings.CutPrefix(value, first)
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, last); !ok {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(wanted, last), "*") {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return true
}

// Domains returns the names of the domains, in the order of the files.
func (c Config) Domains() []string {
	names := make([]string, len(c.domains))
	for i, d := range c.domains {
		names[i] = d.name
	}
	return names
}

// Warnings returns a [*yamlconf.Fault] for each key that has no effect where it stands, and for each rate_limit without
// requests_per_unit. envoyproxy/ratelimit accepts both silently.
func (c Config) Warnings() []error { return slices.Clone(c.warnings) }

// Load reads files, and those files of directories whose names end in .yaml, .yml or .json and do not start with a dot, in the
// order of their names. It returns all errors, joined; each error in the content of a file is a [*yamlconf.Fault]. Two files of one
// domain are an error.
func Load(files ...string) (Config, error) { return load(files, false) }

// LoadMerged is like Load, except that files of one domain are merged: their descriptors are those of one list.
func LoadMerged(files ...string) (Config, error) { return load(files, true) }

func load(names []string, merge bool) (Config, error) {
	var c Config
	var faults []error
	files, err := filesOf(names)
	if err != nil {
		return Config{}, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = c.add(file, text, merge)
		}
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// filesOf returns the files that names stand for.
func filesOf(names []string) (files []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		before := len(files)
		for _, e := range entries {
			file := filepath.Join(name, e.Name())
			// Kubernetes mounts files as links.
			if info, err := os.Stat(file); err != nil || info.IsDir() || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
				files = append(files, file)
			}
		}
		if len(files) == before {
			return nil, &yamlconf.Fault{File: name, Text: "no file in this directory ends in .yaml, .yml or .json"}
		}
	}
	return files, nil
}

// add reads one more file.
func (c *Config) add(file string, text []byte, merge bool) error {
	r, before := &reader{file: file, bad: c.bad}, len(c.domains)
	err := yamlconf.Read(file, text, func(root yamlconf.Node) { c.readFile(r, root, merge) })
	if err != nil { // no error is reported for another file that has the domain or, with merge, its descriptors
		c.domains, c.bad = c.domains[:before], append(c.bad, file)
	}
	c.warnings = append(c.warnings, r.warnings...)
	return err
}

// readFile reads the domain of a file.
func (c *Config) readFile(r *reader, root yamlconf.Node, merge bool) {
	d := &domainConfig{file: r.file, line: 1, keys: DefaultKeys, failOpen: true}
	f := r.fields(root, "the file", "domain", "descriptors", "keys", "fail-open")
	if d.name = text(f["domain"], "domain"); d.name == "" {
		root.Fault("config file cannot have empty domain: want domain: NAME")
	} else {
		d.line = f["domain"].Place().Line
	}
	switch at := slices.IndexFunc(c.domains, func(o *domainConfig) bool { return o.name == d.name }); {
	case at < 0:
		c.domains = append(c.domains, d)
	case merge:
		d = c.domains[at]
	case d.name != "":
		first := c.domains[at]
		f["domain"].Fault("duplicate domain '%s' in config file, first in %s:%d; --merge would merge the files", d.name, first.file, first.line)
	}
	if n, ok := f["keys"]; ok {
		d.keys = int(min(whole(n, "keys", 1), 1<<30))
	}
	if n, ok := f["fail-open"]; ok {
		d.failOpen = boolean(n, "fail-open")
	}
	d.read(r, &d.root, nil, f["descriptors"])
}

// read reads the descriptors below a node.
func (d *domainConfig) read(r *reader, parent *node, path []entry, list yamlconf.Node) {
	for _, item := range maps(list, "descriptors") {
		d.readOne(r, parent, path, item)
	}
}

// readOne reads one descriptor.
func (d *domainConfig) readOne(r *reader, parent *node, path []entry, item yamlconf.Node) {
	f := r.fields(item, "a descriptor", "key", "value", "rate_limit", "limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata")
	n := &node{entry: entry{
		key: text(f["key"], "key"), value: text(f["value"], "value"),
		shared: boolean(f["share_threshold"], "share_threshold"), inMetric: boolean(f["value_to_metric"], "value_to_metric"),
	}}
	if n.key == "" {
		item.Fault("descriptor has empty key: want key: NAME")
		return
	}
	if strings.Contains(n.key, "*") {
		f["key"].Fault("key '%s' has a *, which can only stand in a value", n.key)
	}
	if n.shared && !n.isWildcard() {
		f["share_threshold"].Fault("share_threshold can only be used with wildcard values (containing '*'), but found key '%s'", n.name())
	}
	n.metadata = metadata(f["metadata"])
	path = append(slices.Clip(path), n.entry)
	if first, ok := parent.files[n.name()]; ok && !slices.Contains(r.bad, first) {
		item.Fault("duplicate descriptor composite key '%s'", d.name+"."+nameOf(path))
		return
	}
	parent.add(n, r.file)
	d.readRule(r, n, path, item, f)
	d.read(r, n, path, f["descriptors"])
}

// readRule reads the limit of a descriptor, if there is one.
func (d *domainConfig) readRule(r *reader, n *node, path []entry, item yamlconf.Node, f map[string]yamlconf.Node) {
	rule := &ruleConfig{
		file: r.file, line: item.Place().Line, metadata: n.metadata,
		shadow: boolean(f["shadow_mode"], "shadow_mode"), quota: boolean(f["quota_mode"], "quota_mode"),
		detailed: boolean(f["detailed_metric"], "detailed_metric"),
	}
	rateLimit, hasRateLimit := f["rate_limit"]
	limit, hasLimit := f["limit"]
	switch {
	case hasRateLimit && hasLimit:
		limit.Fault("limit and rate_limit: want one of them")
	case hasRateLimit && !rateLimit.IsNull():
		rule.readRateLimit(r, rateLimit)
	case hasLimit:
		rule.readSpec(limit)
	default:
		return
	}
	rule.describe(path)
	n.rule = rule
	d.rules = append(append(d.rules, rule), rule.others...)
}

// add adds a descriptor below n, where there is none of its key and value.
func (n *node) add(child *node, file string) {
	if n.below == nil {
		n.below, n.wildcards, n.files = make(map[[2]string]*node), make(map[string][]*node), make(map[string]string)
	}
	n.files[child.name()] = file
	n.below[[2]string{child.key, child.value}] = child
	if child.isWildcard() {
		n.wildcards[child.key] = append(n.wildcards[child.key], child)
	}
}

// find returns the most specific descriptor below n, or nil. The exact value wins, which may be a wildcard as it stands in the
// file, as in envoyproxy/ratelimit; then the first wildcard in the order of the file, then the descriptor without a value.
func (n *node) find(key, value string) *node {
	if found := n.below[[2]string{key, value}]; found != nil {
		return found
	}
	for _, w := range n.wildcards[key] {
		if w.matches(value) {
			return w
		}
	}
	return n.below[[2]string{key, ""}]
}

// name returns the entry as envoyproxy/ratelimit names it.
func (e entry) name() string {
	if e.value == "" {
		return e.key
	}
	return e.key + "_" + e.value
}

func nameOf(path []entry) string {
	names := make([]string, len(path))
	for i, e := range path {
		names[i] = e.name()
	}
	return strings.Join(names, ".")
}
