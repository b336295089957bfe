package compat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/eapache/channels" // in go.mod: its tests are run from a copy
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of eapache/channels pass with channels of ours in place of its infinite, overflowing, ring and resizable ones.
// Two are left out: they count what was dropped of 1,000 items right after the last went into a Go channel, when the
// adapter's goroutine may still have it in hand.
func TestChannels(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and runs another test binary")
	}
	dir := newCopy(t)
	to := filepath.Join(dir, "channels")
	copySource(t, moduleDir(t, "github.com/eapache/channels"), to, strings.NewReplacer())
	for _, name := range []string{"infinite", "overflowing", "ring", "resizable"} {
		require.NoError(t, os.Remove(filepath.Join(to, name+"_channel.go")))
	}
	copySource(t, "testdata/channels", to, strings.NewReplacer())
	failed, passed, out := testCopy(t, dir, "-skip", "^Test(Overflowing|Ring)Channel$", "./channels")
	assert.Empty(t, failed, "%s", out)
	assert.Equal(t, 22, passed, "%s", out)
}
