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
	last map[string]chan struct{} // channel of each line, closed when its last job leaves
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

// take waits for a permit of a key and takes it.
func (k *keys) take(ctx context.Context, key string) (core.Lease, error) {
	return k.limits.Acquire(ctx, key, 1)
}

// restart exchanges a permit, which the job held while it waited for the pool, for one that counts from now. Otherwise the next
// permit could be available already, and the next job of the key would follow immediately. The exchange succeeds because the
// other jobs of the key are behind this one in its line.
func (k *keys) restart(key string, permit core.Lease) core.Lease {
	permit.Refund()
	return k.limits.TryAcquire(key, 1)
}
