package service_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
)

// TestWatchInBusyDirectory: the file is reloaded although other files next to it change all the time.
func TestWatchInBusyDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, file, "one")
	w := service.Watch(t.Context(), t.Logf, file)
	defer w.Close()
	write(t, file, "two")
	busy := time.NewTicker(20 * time.Millisecond)
	defer busy.Stop()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		select {
		case <-w.Settled:
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
	w := service.Watch(t.Context(), t.Logf, file)
	defer w.Close()
	require.NoError(t, os.Symlink("two", filepath.Join(dir, "next")))
	require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "data")))
	<-w.Settled
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "two", string(text))
}

// TestWatchNothing: a directory that cannot be watched is polled.
func TestWatchNothing(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "later")
	said := make(chan string, 1)
	w := service.Watch(t.Context(), func(format string, args ...any) { said <- fmt.Sprintf(format, args...) }, filepath.Join(directory, "limits.yaml"))
	defer w.Close()
	assert.Contains(t, <-said, "for changes, polling every 3s instead")
	require.NoError(t, os.Mkdir(directory, 0o700))
	write(t, filepath.Join(directory, "limits.yaml"), "one")
	<-w.Settled
}

// TestWatchDirectory: a directory is watched with its files, and so is the directory to which a link in its place points later.
func TestWatchDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	directory := filepath.Join(dir, "rules")
	require.NoError(t, os.Symlink("one", directory))
	w := service.Watch(t.Context(), t.Logf, directory)
	defer w.Close()
	write(t, filepath.Join(dir, "one", "a.yaml"), "new")
	<-w.Settled
	require.NoError(t, os.Symlink("two", filepath.Join(dir, "next")))
	require.NoError(t, os.Rename(filepath.Join(dir, "next"), directory))
	<-w.Settled
	write(t, filepath.Join(dir, "two", "b.yaml"), "new")
	<-w.Settled
	write(t, filepath.Join(dir, "two", "b.yaml"), "newer")
	<-w.Settled
	require.NoError(t, os.Remove(filepath.Join(dir, "two", "b.yaml")))
	<-w.Settled
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}
