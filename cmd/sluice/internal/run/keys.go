package run

import (
	"context"
	"math"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// keys is a limit per key, with a line of waiting jobs per key: jobs of one key start in the order in which they join the line,
// and do not delay jobs of other keys.
type keys struct {
	limits *partition.Keyed[string, string]

	mu   sync.Mutex
	last map[string]chan struct{} // of each line, closed when its last job leaves
}

func newKeys(limits spec.Limits) (k *keys, err error) {
	k = &keys{last: make(map[string]chan struct{})}
	k.limits, err = partition.New(partition.Options[string, string]{
		Name: "limit per key", MaxPartitions: math.MaxInt, Key: func(key string) string { return key }, New: limits.New,
	})
	return k, err
}

// join puts a job into the line of its key. first is closed when the job is the first. The job must leave once it has started.
func (k *keys) join(key string) (first <-chan struct{}, leave func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, own := k.last[key], make(chan struct{})
	if before == nil {
		before = make(chan struct{})
		close(before)
	}
	k.last[key] = own
	return before, sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		close(own)
		if k.last[key] == own {
			delete(k.last, key)
		}
	})
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
