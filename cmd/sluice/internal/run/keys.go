package run

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// keys is a limit for each key, and a line before it. The first job of a line waits for a permit, so that jobs of one key
// start in the order of the input, and delay none of another.
type keys struct {
	limits *partition.Keyed[string, string]
	room   chan struct{} // one element for each job that has not started

	mu    sync.Mutex
	lines map[string][]*place // by key; none is empty
}

// place is a job's place in the line of its key.
type place struct {
	key   string
	first bool          // of the job's tries
	turn  chan struct{} // closed when it is the first in its line
}

// ahead is how many jobs may be in all lines before the reader waits.
const ahead = 1000

func newKeys(limit spec.Limit) (k *keys, err error) {
	k = &keys{room: make(chan struct{}, ahead), lines: make(map[string][]*place)}
	k.limits, err = partition.New(partition.Options[string, string]{
		Name: "rate per key", MaxPartitions: math.MaxInt, Key: func(key string) string { return key }, New: limit.New,
	})
	return k, err
}

// join puts a job at the end of its key's line, and waits while there is no room.
func (k *keys) join(ctx context.Context, key string) (*place, error) {
	select {
	case k.room <- struct{}{}:
		return k.enter(&place{key: key, first: true}), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rejoin is join for another try, which comes before the jobs that have not started.
func (k *keys) rejoin(key string) *place { return k.enter(&place{key: key}) }

func (k *keys) enter(p *place) *place {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.turn = make(chan struct{})
	line := k.lines[p.key]
	at := len(line)
	if at == 0 {
		close(p.turn)
	}
	for !p.first && at > 1 && line[at-1].first {
		at--
	}
	k.lines[p.key] = slices.Insert(line, at, p)
	return p
}

// leave takes a job out of its line.
func (k *keys) leave(p *place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	line := k.lines[p.key]
	at := slices.Index(line, p)
	line = slices.Delete(line, at, at+1)
	k.lines[p.key] = line
	switch {
	case len(line) == 0:
		delete(k.lines, p.key)
	case at == 0:
		close(line[0].turn)
	}
	if p.first {
		<-k.room
	}
}
