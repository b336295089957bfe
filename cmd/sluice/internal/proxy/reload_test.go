package proxy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWatchInBusyFolder: files that change all the time beside it do not keep the file from being read.
func TestWatchInBusyFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, file, "one")
	p := &proxy{file: file, say: new(lockedText).say}
	w := p.watch(t.Context())
	defer w.close()
	write(t, file, "two")
	busy := time.NewTicker(settle / 10)
	defer busy.Stop()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		select {
		case <-w.settled:
			return
		case <-busy.C:
			write(t, filepath.Join(filepath.Dir(file), "other"), time.Now().String())
		case <-deadline.C:
			t.Fatal("the file was not found changed")
		}
	}
}

// TestWatchLinks: a file is put in place by a link that leads elsewhere, as Kubernetes does.
func TestWatchLinks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		write(t, filepath.Join(dir, name, "limits.yaml"), name)
	}
	file := filepath.Join(dir, "limits.yaml")
	require.NoError(t, os.Symlink("one", filepath.Join(dir, "data")))
	require.NoError(t, os.Symlink("data/limits.yaml", file))
	p := &proxy{file: file, say: new(lockedText).say}
	w := p.watch(t.Context())
	defer w.close()
	require.NoError(t, os.Symlink("two", filepath.Join(dir, "next")))
	require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "data")))
	<-w.settled
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "two", string(text))
}

// TestWatchNothing: where the folder cannot be watched, SIGHUP is what is left.
func TestWatchNothing(t *testing.T) {
	said := new(lockedText)
	p := &proxy{file: filepath.Join(t.TempDir(), "nosuch", "limits.yaml"), say: said.say}
	w := p.watch(t.Context())
	defer w.close()
	assert.Contains(t, said.String(), "send SIGHUP")
}
