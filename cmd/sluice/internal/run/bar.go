package run

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// bar shows how many of all jobs have ended, how many end per second, and the time left. A nil bar shows nothing.
type bar struct {
	line  *cli.StatusLine
	start time.Time
	all   int
	ended atomic.Int64
	stop  func()
}

const barInterval = 200 * time.Millisecond

// newBar draws a bar on stderr, which is a terminal, until close.
func newBar(all int) *bar {
	b := &bar{line: cli.NewStatusLine(os.Stderr), start: time.Now(), all: all}
	b.draw()
	b.stop = cli.Every(barInterval, b.draw)
	return b
}

func (b *bar) draw() { b.line.Show(b.text(b.line.Width(), time.Since(b.start))) }

// text returns the bar after some time: "12/40 jobs [===>-----] 30% 4.0/s 7s left".
func (b *bar) text(width int, elapsed time.Duration) string {
	ended := int(b.ended.Load())
	rate := float64(ended) / max(elapsed.Seconds(), 1e-3)
	share := float64(ended) / float64(max(b.all, 1))
	before, after := fmt.Sprintf("%d/%d jobs ", ended, b.all), fmt.Sprintf(" %.0f%% %.1f/s", 100*share, rate)
	if ended > 0 {
		left := time.Duration(float64(b.all-ended) / rate * float64(time.Second))
		after += fmt.Sprintf(" %v left", left.Round(time.Second))
	}
	return before + cli.Bar(width-len(before)-len(after), share) + after
}

func (b *bar) add() {
	if b != nil {
		b.ended.Add(1)
	}
}

func (b *bar) close() {
	if b != nil {
		b.stop()
		b.line.Clear()
	}
}
