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

// Verdict is the result of a rule for a limiter.
type Verdict struct {
	Skipped string // why
	Faults  []error
}

// Judge returns the verdict of one rule, for tests that want it broken.
func Judge(t *testing.T, c Config, name string) (v Verdict) {
	t.Helper()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
	if i < 0 {
		t.Fatalf("no rule %q", name)
	}
	f, errs := c.facts(t)
	if len(errs) == 0 {
		v.Skipped, errs = f.judge(t, rules[i])
	}
	for _, err := range errs {
		v.Faults = append(v.Faults, err)
	}
	return v
}

// Validate returns the errors of a config.
func (c Config) Validate() error { return c.validate() }
