package proxy

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file has to stay as it is before it is read: whoever writes it may not be done.
const settle = 200 * time.Millisecond

// watcher tells that the file has changed, once it has settled.
type watcher struct {
	settled chan struct{}
	file    string
	say     func(string, ...any)
	w       *fsnotify.Watcher // nil: the file is not watched
	done    chan struct{}
}

// watch watches the file's folder: editors and deployments put a new file in the place of the old one. Where that cannot
// be done, which limits of the system may be the reason for, SIGHUP is left.
func (p *proxy) watch(ctx context.Context) *watcher {
	t := &watcher{settled: make(chan struct{}), file: p.file, say: p.say, done: make(chan struct{})}
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(filepath.Dir(p.file)); err != nil {
			_ = w.Close()
		}
	}
	if err != nil {
		p.say("the file is not watched, so send SIGHUP when it has changed: %v", err)
		return t
	}
	t.w = w
	go t.run(ctx, stateOf(p.file))
	return t
}

func (t *watcher) run(ctx context.Context, was fileState) {
	defer close(t.done)
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	<-quiet.C
	var due chan<- struct{} // t.settled when there is something to tell
	for {
		select {
		case e, ok := <-t.w.Events:
			if !ok {
				return
			}
			is := stateOf(t.file) // a link's target changes with the name of something else
			if filepath.Base(e.Name) == filepath.Base(t.file) || !is.same(was) {
				was = is
				quiet.Reset(settle)
			}
		case err, ok := <-t.w.Errors:
			if !ok {
				return
			}
			t.say("the file is not watched well: %v", err)
			quiet.Reset(settle)
		case <-quiet.C:
			due = t.settled
		case due <- struct{}{}:
			due = nil
		case <-ctx.Done():
			return
		}
	}
}

// fileState is what a file does not keep when another one is put in its place; nil: there is none.
type fileState struct{ os.FileInfo }

func stateOf(file string) fileState {
	i, err := os.Stat(file)
	if err != nil {
		return fileState{}
	}
	return fileState{i}
}

func (f fileState) same(as fileState) bool {
	if f.FileInfo == nil || as.FileInfo == nil {
		return f.FileInfo == as.FileInfo
	}
	return os.SameFile(f.FileInfo, as.FileInfo) && f.Size() == as.Size() && f.ModTime().Equal(as.ModTime())
}

func (t *watcher) close() {
	if t.w == nil {
		return
	}
	_ = t.w.Close()
	for range t.w.Events { // a run that waits for the reader
	}
	<-t.done
}

// reload reads the file again, if it has changed or is asked for. If anything is wrong, it says what, and nothing changes.
func (p *proxy) reload(asked bool) {
	if !asked {
		text, err := os.ReadFile(p.file)
		p.mu.Lock()
		same := err == nil && bytes.Equal(text, p.text)
		p.mu.Unlock()
		if same || os.IsNotExist(err) { // a new one is being put in its place, or it is missed at the next SIGHUP
			return
		}
	}
	if err := p.load(); err != nil {
		sayAll(p.say, err)
		p.say("nothing has changed: the limits are those of before")
		return
	}
	p.say("the limits are those of %s now", p.file)
}

// lines yields the lines of a text.
func lines(text []byte) func(yield func([]byte) bool) {
	return bytes.SplitSeq(bytes.TrimSpace(text), []byte("\n"))
}
