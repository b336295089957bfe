package shared

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

const watchEvery = time.Second

// Watch calls state with the reason when the server no longer decides, and with nil when it decides again, until ctx is done. It
// polls the server once a second, because there may be no requests. ready is closed when the state is known, or after as long as
// Warm may take.
func (s *Store) Watch(ctx context.Context, state func(err error)) (ready <-chan struct{}) {
	asking, asked := context.WithTimeout(ctx, max(warming, s.timeout))
	l := core.Must(redislimit.New(core.PerSecond(1, 1), redislimit.Options{Store: s.store, Timeout: s.timeout, Key: "sluice/watch"}))
	unwatch := redislimit.Watch(s.store, func(_ bool, err error) {
		asked()
		state(err)
	})
	go func() {
		defer func() { _ = l.Close() }()
		defer unwatch()
		for asking.Err() == nil {
			if !errors.Is(l.TryAcquire(0).Err(), redislimit.ErrStore) {
				asked()
			}
		}
		for cli.Sleep(ctx, watchEvery) {
			l.Statistics()
		}
	}()
	return asking.Done()
}
