package proxy

import (
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/ballast"
)

// once is a listener of one connection.
type once struct {
	net.Listener

	c net.Conn
}

func (l once) Accept() (net.Conn, error) { return l.c, nil }

// TestStalledWrites: who takes its answer slowly is served, and who takes nothing of it is cut off.
func TestStalledWrites(t *testing.T) {
	for _, test := range []struct {
		name  string
		pause time.Duration // between what is taken and what is not
		cut   time.Duration // after that
	}{
		{"at once", 0, stall},
		{"soon", stall/fresh - time.Second, stall - stall/fresh + time.Second},
		{"later", stall / fresh, stall},
		{"when the deadline is long over", 10 * stall, stall},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer func() { _ = theirs.Close() }()
				l := stalling{once{c: ours}, time.Now()}
				time.Sleep(time.Second)
				c, err := l.Accept()
				require.NoError(t, err)
				go func() { _, _ = io.ReadFull(theirs, make([]byte, 2)) }()
				_, err = c.Write([]byte("ok"))
				require.NoError(t, err)
				time.Sleep(test.pause)
				begun := time.Now()
				_, err = c.Write([]byte("more"))
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				assert.Equal(t, test.cut, time.Since(begun))
			})
		})
	}
}

// TestStalledUpgrade: net/http takes all deadlines off a connection that is upgraded.
func TestStalledUpgrade(t *testing.T) {
	for name, undo := range map[string]func(net.Conn) error{
		"SetDeadline":      func(c net.Conn) error { return c.SetDeadline(time.Time{}) },
		"SetWriteDeadline": func(c net.Conn) error { return c.SetWriteDeadline(time.Time{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer func() { _ = theirs.Close() }()
				c, err := stalling{once{c: ours}, time.Now().Add(-time.Hour)}.Accept()
				require.NoError(t, err)
				go func() { _, _ = io.ReadFull(theirs, make([]byte, 2)) }()
				_, err = c.Write([]byte("ok"))
				require.NoError(t, err)
				require.NoError(t, undo(c))
				begun := time.Now()
				_, err = c.Write([]byte("more"))
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				assert.Equal(t, stall, time.Since(begun))
			})
		})
	}
}

// TestBallast: there is none where somebody has said how much memory may be used.
func TestBallast(t *testing.T) {
	for _, test := range []struct {
		name, value string
		want        uint64
	}{
		{"GOGC", "", ballast.Size},
		{"GOGC", "100", 0},
		{"GOMEMLIMIT", "100MiB", 0},
	} {
		t.Setenv("GOGC", "")
		t.Setenv("GOMEMLIMIT", "")
		t.Setenv(test.name, test.value)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		drop := ballast.Hold()
		runtime.ReadMemStats(&after)
		drop()
		assert.InDelta(t, test.want, after.TotalAlloc-before.TotalAlloc, ballast.Size/8, "%s=%s", test.name, test.value)
	}
}
