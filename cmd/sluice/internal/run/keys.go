package run

import (
	"context"
	"math"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// keys is a limit per key, and a line of jobs in front of it: jobs of one key start in the order of the input, and delay
// none of another. A line with jobs has a goroutine.
type keys struct {
	limits *partition.Keyed[string, string]
	room   chan struct{} // one element for each job that has not started

	mu    sync.Mutex
	lines map[string]*line
}

// line is what starts the jobs of a key: again those that are tried again, which go first.
type line struct{ again, next []func() }

// aside is how many jobs may be in all lines before the reader waits.
const aside = 1000

func newKeys(limit spec.Limit) (k *keys, err error) {
	k = &keys{room: make(chan struct{}, aside), lines: make(map[string]*line)}
	k.limits, err = partition.New(partition.Options[string, string]{
		Name: "rate per key", MaxPartitions: math.MaxInt, Key: func(key string) string { return key }, New: limit.New,
	})
	return k, err
}

// join puts a job at the end of its key's line, and waits while there is no room. start is called when it is its turn, and
// returns when the job has started.
func (k *keys) join(ctx context.Context, key string, start func()) error {
	select {
	case k.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	k.enter(key, false, func() {
		start()
		<-k.room
	})
	return nil
}

// rejoin is join for another try.
func (k *keys) rejoin(key string, start func()) { k.enter(key, true, start) }

func (k *keys) enter(key string, again bool, start func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[key]
	if l == nil {
		l = new(line)
		k.lines[key] = l
		go k.serve(key, l)
	}
	if again {
		l.again = append(l.again, start)
	} else {
		l.next = append(l.next, start)
	}
}

// serve starts the jobs of a line, one after the other, until there are no more.
func (k *keys) serve(key string, l *line) {
	for {
		start := k.first(key, l)
		if start == nil {
			return
		}
		start()
	}
}

// first takes the first of a line, and removes a line that is empty.
func (k *keys) first(key string, l *line) (start func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(l.again) > 0:
		start, l.again = l.again[0], l.again[1:]
	case len(l.next) > 0:
		start, l.next = l.next[0], l.next[1:]
	default:
		delete(k.lines, key)
	}
	return start
}

// wait waits for a permit of a key and takes none.
func (k *keys) wait(ctx context.Context, key string) error {
	_, err := k.limits.Acquire(ctx, key, 0)
	return err
}

// take takes a permit of a key, which is available as a rule.
func (k *keys) take(ctx context.Context, key string) core.Lease {
	lease, _ := k.limits.Acquire(ctx, key, 1) // an error ends with ctx, and then the job does no harm
	return lease
}
