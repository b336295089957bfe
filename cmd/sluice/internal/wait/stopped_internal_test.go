//go:build unix

package wait

import (
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/spec"
)

// TestStoppedServer: signals and --max-wait end a wait although the server, which has replied before, would be waited for an hour.
func TestStoppedServer(t *testing.T) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("NOT TESTED: redis-server is not installed")
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return goleak.Find(before) == nil }, time.Minute, time.Millisecond)
	})
	dir, err := os.MkdirTemp("", "sluice") //nolint:usetesting // the name of t.TempDir may be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")
	server := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() { _ = c.Close() })
	require.Eventually(t, func() bool { return c.Ping(t.Context()).Err() == nil }, time.Minute, time.Millisecond)

	limit := spec.Limit{Kind: spec.Concurrency, Permits: 1, Queue: math.MaxInt}
	signals := make(chan os.Signal, 3)
	ended := make(chan int, 3)
	for i, maxWait := range []time.Duration{0, 0, 0, time.Second} { // the first one gets the permit
		store, err := shared.Open("unix://"+socket+"?read_timeout=1h", time.Hour)
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		l, err := store.New(limit, "", redislimit.Options{Key: "k", Prefetch: 1})
		require.NoError(t, err)
		o := options{key: "k", text: limit.String(), maxWait: maxWait}
		w := newWatch("k", false)
		t.Cleanup(w.end)
		wait := func() error {
			_, err := o.acquire(t.Context(), &line{store, l, w}, signals)
			return err
		}
		if i == 0 {
			require.NoError(t, wait())
			t.Cleanup(func() { end(l) })
			continue
		}
		go func() { ended <- cli.Report(io.Discard, "wait", wait()) }()
		require.Eventually(t, func() bool { return c.ZCard(t.Context(), "{k}:line").Val() >= int64(min(i, 2)) }, time.Minute, time.Millisecond)
	}
	require.NoError(t, server.Process.Signal(syscall.SIGSTOP))
	time.Sleep(500 * time.Millisecond) // so that they wait for a reply
	signals <- os.Interrupt
	signals <- os.Interrupt
	assert.ElementsMatch(t, []int{128 + 2, 128 + 2, rejected}, []int{<-ended, <-ended, <-ended})
}
