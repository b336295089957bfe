package service

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files must stay unchanged before they are read, because their writer may not be done.
	settle = 200 * time.Millisecond

	// pollInterval is for changes without events: files of another machine, and links above the watched directories.
	pollInterval = 3 * time.Second
)

// Watcher reports that files have changed, once they have settled.
type Watcher struct {
	Settled chan struct{}

	names []string
	say   func(string, ...any)
	w     *fsnotify.Watcher // nil if the files are only polled
	done  chan struct{}
	stop  context.CancelFunc
}

// Watch watches files, and directories with the files in them. It watches the directory of each file, because editors and
// deployments replace a file, or a link to a directory, by another one.
func Watch(ctx context.Context, say func(string, ...any), names ...string) *Watcher {
	t := &Watcher{Settled: make(chan struct{}), names: names, say: say, done: make(chan struct{})}
	ctx, t.stop = context.WithCancel(ctx)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		say("cannot watch for changes, polling every %v instead: %v", pollInterval, err)
	} else {
		t.w = w
		t.add(true)
	}
	go t.run(ctx, stateOf(names))
	return t
}

// add watches the directories, also those to which links point now.
func (t *Watcher) add(first bool) {
	for _, name := range t.names {
		dirs := []string{filepath.Dir(name)}
		if i, err := os.Stat(name); err == nil && i.IsDir() {
			dirs = append(dirs, name)
		}
		for _, f := range dirs {
			if !first && f == name {
				_ = t.w.Remove(f) // it may be another directory now
			}
			if err := t.w.Add(f); err != nil && first {
				t.say("cannot watch %s for changes, polling every %v instead: %v", name, pollInterval, err)
			}
		}
	}
}

func (t *Watcher) run(ctx context.Context, was state) {
	defer close(t.done)
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	<-quiet.C
	looks := time.NewTicker(pollInterval)
	defer looks.Stop()
	var events chan fsnotify.Event
	var errs chan error
	if t.w != nil {
		events, errs = t.w.Events, t.w.Errors
		defer t.drain()
	}
	var due chan<- struct{} // t.Settled when there is something to report
	look := func() {
		if is := stateOf(t.names); !is.same(was) {
			was = is
			quiet.Reset(settle)
		}
	}
	for {
		select {
		case e := <-events:
			if t.isOurs(e.Name) {
				quiet.Reset(settle)
			}
			look()
		case err := <-errs:
			t.say("file watcher: %v; reading the files again", err)
			quiet.Reset(settle)
		case <-looks.C:
			look()
		case <-quiet.C:
			if t.w != nil {
				t.add(false)
			}
			due = t.Settled
		case due <- struct{}{}:
			due = nil
		case <-ctx.Done():
			return
		}
	}
}

// drain closes the watcher, which may be about to send events.
func (t *Watcher) drain() {
	go func() { _ = t.w.Close() }()
	for range t.w.Events { // until it is closed
	}
}

// isOurs reports whether an event is about one of the files, rather than about a neighbor.
func (t *Watcher) isOurs(changed string) bool {
	for _, name := range t.names {
		if filepath.Base(changed) == filepath.Base(name) {
			return true
		}
	}
	return false
}

// Close stops the watcher.
func (t *Watcher) Close() {
	t.stop()
	<-t.done
}

// state describes files, so that a changed or replaced file can be told from the one before.
type state map[string]os.FileInfo

// stateOf returns the state of files, and of the files in directories.
func stateOf(names []string) state {
	s := make(state)
	for _, name := range names {
		i, err := os.Stat(name)
		if err != nil {
			continue
		}
		s[name] = i
		if !i.IsDir() {
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			continue
		}
		for _, e := range entries {
			file := filepath.Join(name, e.Name())
			if i, err := os.Stat(file); err == nil && !i.IsDir() {
				s[file] = i
			}
		}
	}
	return s
}

func (s state) same(as state) bool {
	if len(s) != len(as) {
		return false
	}
	for name, i := range s {
		j, ok := as[name]
		if !ok || !os.SameFile(i, j) || !i.IsDir() && (i.Size() != j.Size() || !i.ModTime().Equal(j.ModTime())) {
			return false
		}
	}
	return true
}
