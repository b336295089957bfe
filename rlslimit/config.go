package rlslimit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Config is the rules of some domains, as files say. It does not change. The zero Config has no domains. Make
// it with [Load], [LoadMerged] or [Parse].
type Config struct {
	domains  []*domainConfig // in the order of the files
	warnings []error
}

// DefaultKeys is how many values a rule has limiters for if its domain does not set keys.
const DefaultKeys = 100_000

// domainConfig is one domain of a Config.
type domainConfig struct {
	name     string
	file     string
	line     int
	keys     int
	failOpen bool
	root     node
	rules    []*ruleConfig // of all nodes
}

// node is a descriptor: what may follow it, and its limit.
type node struct {
	entry
	below map[string]*branch // by key
	names map[string]bool    // of what is below, as the reference names it; a name is there once
	rule  *ruleConfig        // nil: it has no limit
}

// entry is the key and value of a descriptor.
type entry struct {
	key, value string // the value as the file has it
	match      match
	shared     bool // share_threshold
	inMetric   bool // value_to_metric
}

// match says which values an entry is for.
type match uint8

const (
	exact    match = iota
	prefixed       // the value ends with *
	anything       // there is no value
)

// branch is the descriptors of one key, of which the most specific one matches a value.
type branch struct {
	exact    map[string]*node
	prefixed []*node // the longest first
	any      *node
}

// Domains returns the names of the domains, in the order of the files.
func (c Config) Domains() []string {
	names := make([]string, len(c.domains))
	for i, d := range c.domains {
		names[i] = d.name
	}
	return names
}

// Warnings returns what the files say that has no effect, each as a [*Fault]: keys that stand where they mean
// nothing, which the reference ignores without a word.
func (c Config) Warnings() []error { return slices.Clone(c.warnings) }

// Load reads files, and the files of folders whose names end in .yaml, .yml or .json and do not begin with a dot, in the
// order of their names. It returns all that is wrong with them, joined; each fault of a file's content is a
// [*Fault]. Two files of one domain are a fault.
func Load(files ...string) (Config, error) { return load(files, false) }

// LoadMerged is Load, except that files of one domain are merged: their descriptors are those of one list.
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
			// A file of a folder that Kubernetes mounts is a link.
			if info, err := os.Stat(file); err != nil || info.IsDir() || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
				files = append(files, file)
			}
		}
		if len(files) == before {
			return nil, &Fault{File: name, Text: "no file in this folder ends in .yaml, .yml or .json"}
		}
	}
	return files, nil
}

// Parse reads the text of one file. The name is for the faults.
func Parse(file string, text []byte) (Config, error) {
	var c Config
	if err := c.add(file, text, false); err != nil {
		return Config{}, err
	}
	return c, nil
}

// add reads one more file.
func (c *Config) add(file string, text []byte, merge bool) error {
	r := &reader{file: file}
	n := r.parse(text)
	if n == nil {
		return errors.Join(r.faults...)
	}
	d := &domainConfig{file: file, line: 1, keys: DefaultKeys, failOpen: true}
	var descriptors, keys, failOpen *yaml.Node
	r.fields(n, "the file", map[string]func(*yaml.Node){
		"domain":      func(n *yaml.Node) { d.name, d.line = r.text(n, "domain"), n.Line },
		"descriptors": func(n *yaml.Node) { descriptors = n },
		"keys":        func(n *yaml.Node) { keys = n },
		"fail-open":   func(n *yaml.Node) { failOpen = n },
	})
	if d.name == "" {
		r.fault(n, "config file cannot have empty domain: want domain: NAME")
	}
	if at := slices.IndexFunc(c.domains, func(o *domainConfig) bool { return o.name == d.name }); at >= 0 && d.name != "" {
		other := c.domains[at]
		if !merge {
			r.faults = append(r.faults, newFault(file, d.line, 1, "duplicate domain '%s' in config file, first in %s:%d; --merge would merge the files",
				d.name, other.file, other.line))
		}
		d = other
	} else {
		c.domains = append(c.domains, d)
	}
	if keys != nil {
		d.keys = int(min(r.number(keys, "keys", 1), 1<<30))
	}
	if failOpen != nil {
		d.failOpen = r.boolean(failOpen, "fail-open")
	}
	if descriptors != nil {
		d.read(r, &d.root, nil, descriptors)
	}
	c.warnings = append(c.warnings, r.warnings...)
	return errors.Join(r.faults...)
}

// read reads the descriptors below a node.
func (d *domainConfig) read(r *reader, parent *node, path []entry, list *yaml.Node) {
	if len(path) >= mostLevels {
		r.fault(list, "descriptors stand in more than %d others", mostLevels)
		return
	}
	for _, item := range r.items(list, "descriptors") {
		d.readOne(r, parent, path, item)
	}
}

// readOne reads one descriptor.
func (d *domainConfig) readOne(r *reader, parent *node, path []entry, item *yaml.Node) {
	n := &node{}
	rule := &ruleConfig{file: r.file, line: item.Line}
	var below, rateLimit, limit, share *yaml.Node
	r.fields(item, "a descriptor", map[string]func(*yaml.Node){
		"key":             func(n1 *yaml.Node) { n.key = r.text(n1, "key") },
		"value":           func(n1 *yaml.Node) { n.value = r.text(n1, "value") },
		"rate_limit":      func(n1 *yaml.Node) { rateLimit = n1 },
		"limit":           func(n1 *yaml.Node) { limit = n1 },
		"descriptors":     func(n1 *yaml.Node) { below = n1 },
		"shadow_mode":     func(n1 *yaml.Node) { rule.shadow = r.boolean(n1, "shadow_mode") },
		"quota_mode":      func(n1 *yaml.Node) { rule.quota = r.boolean(n1, "quota_mode") },
		"detailed_metric": func(n1 *yaml.Node) { rule.detailed = r.boolean(n1, "detailed_metric") },
		"value_to_metric": func(n1 *yaml.Node) { n.inMetric = r.boolean(n1, "value_to_metric") },
		"share_threshold": func(n1 *yaml.Node) { n.shared, share = r.boolean(n1, "share_threshold"), n1 },
	})
	if n.key == "" {
		r.fault(item, "descriptor has empty key: want key: NAME")
		return
	}
	switch {
	case n.value == "":
		n.match = anything
	case strings.HasSuffix(n.value, "*"):
		n.match = prefixed
	}
	if n.shared && n.match != prefixed {
		r.fault(share, "share_threshold can only be used with wildcard values (ending with '*'), but found key '%s'", n.name())
	}
	path = append(slices.Clip(path), n.entry)
	if name := n.name(); parent.names[name] {
		r.fault(item, "duplicate descriptor composite key '%s'", d.name+"."+nameOf(path))
		return
	} else if parent.names == nil {
		parent.names = map[string]bool{name: true}
	} else {
		parent.names[name] = true
	}
	parent.add(n)
	d.readLimit(r, rule, rateLimit, limit)
	if rateLimit != nil && !isNull(rateLimit) || limit != nil {
		rule.describe(path)
		n.rule = rule
		d.rules = append(d.rules, rule)
	}
	if below != nil {
		d.read(r, n, path, below)
	}
}

func isNull(n *yaml.Node) bool { n = plain(n); return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// add adds a descriptor below n, where there is none of its key and value.
func (n *node) add(child *node) {
	if n.below == nil {
		n.below = make(map[string]*branch)
	}
	b := n.below[child.key]
	if b == nil {
		b = &branch{exact: make(map[string]*node)}
		n.below[child.key] = b
	}
	switch child.match {
	case exact:
		b.exact[child.value] = child
	case prefixed:
		at, _ := slices.BinarySearchFunc(b.prefixed, child, func(a, b *node) int { return len(b.value) - len(a.value) })
		b.prefixed = slices.Insert(b.prefixed, at, child)
	case anything:
		b.any = child
	}
}

// find returns the most specific descriptor below n; nil: there is none.
func (n *node) find(key, value string) *node {
	b := n.below[key]
	if b == nil {
		return nil
	}
	if found := b.exact[value]; found != nil {
		return found
	}
	for _, p := range b.prefixed {
		if strings.HasPrefix(value, p.value[:len(p.value)-1]) {
			return p
		}
	}
	return b.any
}

// name returns the entry as the reference names it.
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
