package compat_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "golang.org/x/time/rate" // in go.mod: its tests are run from a copy
)

// Why tests of x/time/rate fail with a core.TokenBucket.
const (
	backwards = "an instant before the last one: time that has passed does not pass again, so no token comes for it"
	movesUp   = "a cancelled reservation: whoever waits behind it moves up, while x/time/rate gives back only what nobody has reserved since"
)

// rateDifferences are the tests of x/time/rate that fail with ours, and why.
var rateDifferences = map[string]string{
	"TestLimiterJumpBackwards": backwards,
	"TestReserveJumpBack":      backwards,
	"TestCancel0Tokens":        movesUp,
	"TestCancel1Token":         movesUp,
	"TestCancelMulti":          movesUp,
}

// x/time/rate's own tests pass with a core.TokenBucket, but for the differences above.
func TestRate(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and runs another test binary")
	}
	dir := newCopy(t)
	copySource(t, "testdata/rate", filepath.Join(dir, "rate"), strings.NewReplacer())
	test := regexp.MustCompile(`func Test(\w+)\(t \*testing\.T\) \{`)
	source := filepath.Join(moduleDir(t, "golang.org/x/time"), "rate", "rate_test.go")
	copyFile(t, source, filepath.Join(dir, "rate", "rate_test.go"), func(text string) string {
		return test.ReplaceAllString(text, "func Test$1(t *testing.T) { InBubble(t, test$1) }\n\nfunc test$1(t *testing.T) {")
	})

	failed, passed, out := testCopy(t, dir, "./rate")
	require.Equal(t, slices.Sorted(maps.Keys(rateDifferences)), failed, "%s", out)
	require.Equal(t, 24, passed, "%s", out)
}
