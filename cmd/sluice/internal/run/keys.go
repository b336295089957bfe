package run

import (
	"context"
	"math"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// keys is a limit for each key. A job whose key has no permit waits aside, so that it does not delay jobs of other
// keys; jobs of one key start in the order of the input.
type keys struct {
	limits *partition.Keyed[string, string]
	turns  *partition.Keyed[string, string] // one permit a key: for the job that waits for limits
	room   chan struct{}                    // one element for each job that waits aside

	mu   sync.Mutex
	last map[string]chan struct{} // by key: closed when the job that joined last has left the line
}

// ahead is how many jobs may wait aside.
const ahead = 1000

func newKeys(limit spec.Limit) (*keys, error) {
	k := &keys{room: make(chan struct{}, ahead), last: make(map[string]chan struct{})}
	var err error
	if k.limits, err = newKeyed("rate per key", limit.New); err != nil {
		return nil, err
	}
	k.turns, err = newKeyed("turn", func(name string) (core.Limiter, error) {
		return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: name, PermitLimit: 1, QueueLimit: math.MaxInt})
	})
	return k, err
}

func newKeyed(name string, limiter func(string) (core.Limiter, error)) (*partition.Keyed[string, string], error) {
	return partition.New(partition.Options[string, string]{
		Name: name, MaxPartitions: math.MaxInt, Key: func(key string) string { return key }, New: limiter,
	})
}

// join puts a job at the end of its key's line, and waits while too many jobs wait aside.
func (k *keys) join(ctx context.Context, key string) (*place, error) {
	select {
	case k.room <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := &place{keys: k, key: key, before: k.last[key], left: make(chan struct{})}
	k.last[key] = p.left
	return p, nil
}

// place is a job's place in the line of its key.
type place struct {
	keys   *keys
	key    string
	before <-chan struct{} // closed when the job before has left; nil: there is none
	left   chan struct{}
}

// wait waits until the job is the first in its line.
func (p *place) wait(ctx context.Context) error {
	if p.before == nil {
		return nil
	}
	select {
	case <-p.before:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave leaves the line.
func (p *place) leave() {
	close(p.left)
	p.keys.mu.Lock()
	defer p.keys.mu.Unlock()
	if p.keys.last[p.key] == p.left {
		delete(p.keys.last, p.key)
	}
	<-p.keys.room
}
