package service

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReloadOfChangedFiles: each change to the files, and to those in directories, is one reload once their writer is done. Links may
// lead elsewhere, as Kubernetes makes them, and neighbors of a file do not count.
func TestReloadOfChangedFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { require.NoError(t, os.WriteFile(path(name), []byte(text), 0o600)) }
	link := func(name, to string) {
		require.NoError(t, os.Symlink(to, path("next")))
		require.NoError(t, os.Rename(path("next"), path(name)))
	}
	for _, name := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(path(name), 0o700))
		write(name+"/limits.yaml", name)
	}
	link("data", "one")
	link("linked.yaml", "data/limits.yaml")
	link("rules", "one")
	synctest.Test(t, func(t *testing.T) {
		var reloads atomic.Int32
		s := &Service{
			Say: t.Logf, Files: []string{path("file.yaml"), path("linked.yaml"), path("later/file.yaml"), path("rules")},
			Reload: func(asked bool) {
				assert.Equal(t, reloads.Add(1) > 10, asked)
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		hangups := make(chan os.Signal, 1)
		go s.keepLoaded(ctx, hangups, stateOf(s.Files))
		time.Sleep(lookEvery / 2)
		for i, change := range []func(){
			func() { write("file.yaml", "one") },
			func() { write("file.yaml", "two, and longer") },
			func() { require.NoError(t, os.Remove(path("file.yaml"))) },
			func() { link("data", "two") },
			func() { link("rules", "two") },
			func() { write("two/more.yaml", "new") },
			func() { write("two/more.yaml", "newer") },
			func() { require.NoError(t, os.Remove(path("two/more.yaml"))) },
			func() {
				require.NoError(t, os.Mkdir(path("later"), 0o700))
				write("later/file.yaml", "one")
			},
			func() {
				for n := range 5 {
					write("file.yaml", strings.Repeat("x", n))
					write("neighbor.yaml", strings.Repeat("x", n))
					time.Sleep(lookEvery)
					synctest.Wait()
					assert.EqualValues(t, 9, reloads.Load(), "while it is written")
				}
			},
		} {
			change()
			time.Sleep(5 * lookEvery)
			synctest.Wait()
			assert.EqualValues(t, i+1, reloads.Load())
		}
		write("neighbor.yaml", "one")
		time.Sleep(5 * lookEvery)
		synctest.Wait()
		assert.EqualValues(t, 10, reloads.Load())
		write("file.yaml", "with a signal")
		hangups <- syscall.SIGHUP
		time.Sleep(5 * lookEvery)
		synctest.Wait()
		assert.EqualValues(t, 11, reloads.Load(), "it is one reload")
		cancel()
	})
}
