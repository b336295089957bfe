package cookbook

import (
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// Bandwidth is a limit on all connections of a server together, for uploads and downloads. It can be
// changed, switched off and on again while connections are open.
type Bandwidth struct {
	limit *core.Switch
}

// NewBandwidth returns a Bandwidth without a limit.
func NewBandwidth() *Bandwidth { return &Bandwidth{core.NewSwitch(core.Unlimited())} }

// Listener returns a listener whose connections share the limit.
func (b *Bandwidth) Listener(l net.Listener) (net.Listener, error) {
	return ioreader.NewListener(l, ioreader.ListenerOptions{Read: b.limit, Write: b.limit})
}

// Limit sets the limit in bytes per second. Waiting calls move to the new limit.
func (b *Bandwidth) Limit(bytes int) error {
	bucket, err := core.NewTokenBucket(ioreader.PerSecond(bytes))
	if err != nil {
		return err // bytes is 0 or less: the limit stays
	}
	b.limit.Set(bucket)
	return nil
}

// Off removes the limit. Calls that wait continue immediately.
func (b *Bandwidth) Off() { b.limit.Set(core.Unlimited()) }

// Pause stops all connections, without closing them, until the next call of Limit or Off.
func (b *Bandwidth) Pause() { b.limit.Set(core.Paused()) }
