package proxy

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/fsnotify/fsnotify"
)

// settle is how long a file must stay unchanged before it is read: its writer may not be done.
const settle = 200 * time.Millisecond

// watcher reports that the file has changed, once it has settled.
type watcher struct {
	settled chan struct{}
	file    string
	say     func(string, ...any)
	w       *fsnotify.Watcher // nil: the file is not watched
	done    chan struct{}
}

// watch watches the file's folder, since editors and deployments put a new file in the place of the old one. If it cannot,
// because of the system's limits for example, the message asks the user to send SIGHUP.
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
	var due chan<- struct{} // t.settled when there is something to report
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

// fileState is what tells a file from another one in its place; nil: there is no file.
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

// reload reads the file again, if it has changed or asked is true. If anything is wrong, it prints what, and nothing
// changes.
func (p *proxy) reload(asked bool) {
	if !asked {
		text, err := os.ReadFile(p.file)
		p.mu.Lock()
		same := err == nil && bytes.Equal(text, p.text)
		p.mu.Unlock()
		if same || os.IsNotExist(err) { // a new one is on its way, or the next SIGHUP reports that there is none
			return
		}
	}
	p.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	defer p.notify(daemon.SdNotifyReady)
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
