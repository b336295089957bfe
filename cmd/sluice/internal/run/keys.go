package run

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// keys is a limit per key, with a line of waiting jobs per key: jobs of one key start in the order of the input, and do
// not delay jobs of other keys. Retries go first.
type keys struct {
	limits *partition.Keyed[string, string]

	mu    sync.Mutex
	lines map[string][]chan struct{} // behind the first job of each key's line
}

func newKeys(limit spec.Limit) (k *keys, err error) {
	k = &keys{lines: make(map[string][]chan struct{})}
	k.limits, err = partition.New(partition.Options[string, string]{
		Name: "rate per key", MaxPartitions: math.MaxInt, Key: func(key string) string { return key }, New: limit.New,
	})
	return k, err
}

// join puts a job into the line of its key. The channel is closed when the job is the first. The first job must leave the
// line once it has started.
func (k *keys) join(key string, again bool) (first <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	turn := make(chan struct{})
	line, busy := k.lines[key]
	switch {
	case !busy:
		close(turn)
	case again:
		line = slices.Insert(line, 0, turn)
	default:
		line = append(line, turn)
	}
	k.lines[key] = line
	return turn
}

func (k *keys) leave(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	line := k.lines[key]
	if len(line) == 0 {
		delete(k.lines, key)
		return
	}
	close(line[0])
	k.lines[key] = line[1:]
}

// wait waits until a permit of a key is available, without taking it.
func (k *keys) wait(ctx context.Context, key string) error {
	_, err := k.limits.Acquire(ctx, key, 0)
	return err
}

// take takes a permit of a key, which is usually available.
func (k *keys) take(ctx context.Context, key string) core.Lease {
	lease, _ := k.limits.Acquire(ctx, key, 1) // an error means that the run is stopping, and this job has started already
	return lease
}
