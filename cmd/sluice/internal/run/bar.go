package run

import (
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// bar shows how many jobs have ended. The zero one shows nothing.
type bar struct {
	progress *mpb.Progress
	bar      *mpb.Bar
}

// newBar draws a bar of total jobs, or counts them if that is not known, below what is written to it.
func newBar(total int) bar {
	if !cli.IsTerminal(os.Stderr) {
		return bar{}
	}
	b := bar{progress: mpb.New(mpb.WithOutput(cli.Screen(os.Stderr)), mpb.WithRefreshRate(200*time.Millisecond), mpb.WithAutoRefresh())}
	filler := mpb.BarFillerBuilder(mpb.BarStyle())
	if total == 0 {
		filler = mpb.NopStyle()
	}
	b.bar = b.progress.New(int64(total), filler,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.CurrentNoUnit("%d jobs ")),
		mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO)))
	return b
}

func (b bar) add() {
	if b.bar != nil {
		b.bar.Increment()
	}
}

func (b bar) close() {
	if b.bar != nil {
		b.bar.Abort(true)
		b.progress.Wait()
	}
}
