package telemetry

import (
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
)

// What its limiter lacks of the following does nothing, as in the views of core.

// Statistics returns the limiter's; of a limiter that is not a Reporter only Available is known.
func (i *instrumented) Statistics() core.Statistics {
	if r, ok := core.As[core.Reporter](i.l); ok {
		return r.Statistics()
	}
	return core.Statistics{Available: i.l.Available()}
}

// IdleFor returns the limiter's; a limiter that is not an Idler is never idle.
func (i *instrumented) IdleFor() (time.Duration, bool) {
	if d, ok := core.As[core.Idler](i.l); ok {
		return d.IdleFor()
	}
	return 0, false
}

// Close closes the limiter if it can be closed.
func (i *instrumented) Close() error {
	if c, ok := core.As[io.Closer](i.l); ok {
		return c.Close()
	}
	return nil
}
