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
	w       *fsnotify.Watcher
	done    chan struct{}
}

// watch watches the file's folder: editors and deployments put a new file in the place of the old one.
func (p *proxy) watch(ctx context.Context) (*watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(filepath.Dir(p.file)); err != nil {
		_ = w.Close()
		return nil, err
	}
	t := &watcher{settled: make(chan struct{}), w: w, done: make(chan struct{})}
	go t.run(ctx, p.say)
	return t, nil
}

func (t *watcher) run(ctx context.Context, say func(string, ...any)) {
	defer close(t.done)
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	<-quiet.C
	for {
		select {
		case _, ok := <-t.w.Events: // of any file: a link's target changes with another's name
			if !ok {
				return
			}
			quiet.Reset(settle)
		case err, ok := <-t.w.Errors:
			if !ok {
				return
			}
			say("the file is not watched well: %v", err)
			quiet.Reset(settle)
		case <-quiet.C:
			select {
			case t.settled <- struct{}{}:
			case <-ctx.Done():
				return
			case <-t.w.Events:
				quiet.Reset(settle)
			}
		}
	}
}

func (t *watcher) close() {
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
