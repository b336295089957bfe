//go:build linux

package group

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestZombies: a group whose processes have all ended is gone, although no process has reaped them, as in a container without
// an init. One with a living process is not.
func TestZombies(t *testing.T) {
	for _, test := range []struct {
		script string
		gone   bool
		most   time.Duration
	}{
		{"exit 0", true, time.Minute},
		{"sleep 1000 >&- 2>&- & exit 0", false, 300 * time.Millisecond},
	} {
		c := exec.CommandContext(t.Context(), "sh", "-c", test.script)
		c.SysProcAttr = Own()
		require.NoError(t, c.Start())
		require.Eventually(t, func() bool { return isZombie(c.Process.Pid) }, time.Minute, time.Millisecond)
		assert.Equal(t, test.gone, gone(-c.Process.Pid, test.most), test.script)
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		require.NoError(t, c.Wait())
	}
}

// isZombie reports whether a process has ended and was not reaped.
func isZombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, ok := parseStat(text)
	return err == nil && ok && state == 'Z'
}
