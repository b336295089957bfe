package limitertest

import (
	"slices"
	"testing"
)

// RuleNames returns the names of all rules.
func RuleNames() []string {
	var names []string
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// Verdict is what a rule made of a limiter.
type Verdict struct {
	Skipped string // why
	Faults  []error
}

// Judge returns the verdict of one rule, for tests that want it broken.
func Judge(t *testing.T, c Config, name string) Verdict {
	t.Helper()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	f, faults := c.find(t)
	if len(faults) > 0 {
		return Verdict{Faults: faults}
	}
	i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
	if i < 0 {
		t.Fatalf("no rule %q", name)
	}
	if why := rules[i].skipped(f); why != "" {
		return Verdict{Skipped: why}
	}
	return Verdict{Faults: rules[i].faults(t, f)}
}

// Found returns what is found out of what a config leaves out.
func Found(t *testing.T, c Config) Config {
	t.Helper()
	f, faults := c.find(t)
	for _, err := range faults {
		t.Error(err)
	}
	found := f.Config
	if found.QueueLimit = f.queue; f.queue == 0 {
		found.QueueLimit = NoQueue
	}
	return found
}

// Validate returns what is wrong with a config.
func (c Config) Validate() error { return c.validate() }
