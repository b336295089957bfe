package wait

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
)

// watch shows the progress of a wait: on a terminal in a status line that is redrawn every second, otherwise, with
// --verbose, in one message.
type watch struct {
	key     string
	verbose bool
	line    *cli.StatusLine
	start   time.Time
	stop    func()

	mu     sync.Mutex
	before int  // processes that are served first
	down   bool // the server is unreachable
	said   bool // without a terminal, the message has been printed
}

const watchEvery = time.Second

func newWatch(key string, verbose bool) *watch {
	w := &watch{key: key, verbose: verbose, line: cli.NewStatusLine(os.Stderr), start: time.Now()}
	w.stop = cli.Every(watchEvery, w.show)
	return w
}

// end stops the display. A second call does nothing.
func (w *watch) end() {
	w.stop()
	w.line.Clear()
}

// say prints a message.
func (w *watch) say(format string, args ...any) {
	_, _ = fmt.Fprintf(w.line.Above(os.Stderr), "sluice wait: "+format+"\n", args...)
}

// waiting notes how many other processes are served first.
func (w *watch) waiting(before int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}

// state notes whether the server is reachable, and prints a message when that changes.
func (w *watch) state(up bool, err error) {
	w.mu.Lock()
	changes := w.down == up
	w.down = !up
	w.mu.Unlock()
	switch {
	case !changes:
	case up:
		w.say("redis is reachable again")
	default:
		w.say("%s; waiting until it is back", shared.Reason(err))
	}
}

// show shows the state of the wait.
func (w *watch) show() {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := "waiting for a permit of " + w.key
	if w.before > 0 {
		text += fmt.Sprintf(", behind %d in line", w.before)
	}
	if w.line != nil {
		w.line.Show(fmt.Sprintf("sluice wait: %s (%v)", text, time.Since(w.start).Round(time.Second)))
	} else if w.verbose && !w.said {
		w.said = true
		w.say("%s", text)
	}
}
