package shared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/spec"
)

const (
	watchEvery = time.Second
	fewFails   = 3 // in a row, after which redislimit takes the server for unreachable
)

// Watch calls state with the reason when the server no longer decides, and with nil when it decides again, until ctx is done. It
// asks the server once a second, so that it notices without requests; calls of limiters count, too. ready is closed when the
// state is known, or after as long as Warm may take.
func (s *Store) Watch(ctx context.Context, state func(err error)) (ready <-chan struct{}, err error) {
	made, err := s.New(spec.Limit{Kind: spec.TokenBucket, Permits: 1, Per: time.Second}, "watch", redislimit.StoreOptions{
		Key: "sluice/watch", OnState: func(_ bool, err error) { state(err) },
	})
	if err != nil {
		return nil, err
	}
	l, ok := made.(interface {
		core.Limiter
		core.Reporter
		io.Closer
	})
	if !ok {
		return nil, fmt.Errorf("a limiter of type %T does not report", made)
	}
	asking, asked := context.WithTimeout(ctx, max(warming, s.timeout))
	go func() {
		defer func() { _ = l.Close() }()
		for range fewFails {
			if !errors.Is(l.TryAcquire(0).Err(), redislimit.ErrStore) {
				break
			}
		}
		asked()
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				l.Statistics()
			}
		}
	}()
	return asking.Done(), nil
}
