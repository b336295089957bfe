package limitertest

import (
	"slices"
	"testing"
)

// PartNames returns the names of all parts.
func PartNames() []string { return partNames() }

// Verdict is the result of a part for a limiter.
type Verdict struct {
	Skipped string // why
	Faults  []error
}

// Judge returns the verdict of one part, for tests that want it broken.
func Judge(t *testing.T, c Config, name string) (v Verdict) {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	i := slices.Index(partNames(), name)
	if i < 0 {
		t.Fatalf("no part %q", name)
	}
	v.Skipped, v.Faults = c.judge(t, parts()[i])
	return v
}

// Validate returns the errors of a config.
func (c Config) Validate() error { return c.validate(partNames()) }
