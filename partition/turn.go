package partition

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/wait"
)

// turn is the turn of one call at a time to run code of users, which may call the Keyed, and so ask for the turn again.
type turn struct {
	wait.Turn

	stuck atomic.Bool // a call has waited for it in vain, and the one that has it has not left since
}

// patience is how long a call waits for another one that runs code of a user, and moment is how long a try does.
const (
	patience = time.Second
	moment   = 10 * time.Millisecond
)

// takeSoon takes the turn. If another call has it, takeSoon waits until ctx is done, but not longer than long: that call may
// be waiting for this one. Once a call has waited for patience in vain, no other waits until that call leaves.
func (t *turn) takeSoon(ctx context.Context, long time.Duration) bool {
	if t.TryTake() {
		return true
	}
	if t.stuck.Load() {
		return false
	}
	soon, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	if t.Take(soon) == nil {
		return true
	}
	if long == patience && ctx.Err() == nil {
		t.stuck.Store(true)
	}
	return false
}

func (t *turn) leave() {
	if t.stuck.Load() {
		t.stuck.Store(false)
	}
	t.Leave()
}
