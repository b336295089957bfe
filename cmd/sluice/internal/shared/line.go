package shared

import (
	"context"
	"crypto/rand"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"
)

// A line is a queue of processes on the server: they are served in order of arrival. It is two sorted sets: the members by
// arrival, and by the time when they were last seen. A member that was not seen for a second is gone. When the first member
// leaves, the server publishes the name of the next one.
const (
	seenEvery = 250 * time.Millisecond
	goneAfter = time.Second
	maxFails  = 3 // failures in a row after which the server counts as unreachable
)

//go:embed line.lua
var lineSource string

var lineScript = redis.NewScript(lineSource)

// Waiter is notified of the progress of a wait. Its functions are not called concurrently.
type Waiter struct {
	Waiting func(before int)         // each time the process is still in line, behind before others
	State   func(up bool, err error) // after three failures, and when the server is reachable again
}

// Line waits until this process is the first in line for the key. If err is nil, it stays the first until it calls leave. If
// the server becomes unreachable after its first reply, Line waits until it is back. The error is that of ctx, or matches
// [ErrUnreachable] if the first call fails.
func (s *Store) Line(ctx context.Context, key string, w Waiter) (leave func(), err error) {
	p := &place{store: s, key: key, name: rand.Text(), waiter: w}
	if err := p.await(ctx); err != nil {
		p.leave(ctx)
		return nil, err
	}
	return p.keep(ctx), nil
}

// place is the place of a process in a line.
type place struct {
	store     *Store
	key, name string
	arrival   int64 // time of arrival by the server's clock; 0 before the first reply
	fails     int   // number of failures in a row
	waiter    Waiter
}

// channel returns the key of the line, which is also the channel. It starts as those of redislimit do.
func (p *place) channel() string { return "{" + p.key + "}:line" }

// await waits until the place is the first.
func (p *place) await(ctx context.Context) error {
	first, err := p.stay(ctx)
	if first || err != nil {
		return err
	}
	subscription := p.store.client.Subscribe(ctx, p.channel())
	defer func() { _ = subscription.Close() }()
	look := time.NewTicker(seenEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-look.C:
		case m := <-subscription.Channel():
			if m.Payload != p.name {
				continue // another process is next
			}
		}
		if first, err := p.stay(ctx); first || err != nil {
			return err
		}
	}
}

// stay tells the server that the process is there, and reports whether it is the first.
func (p *place) stay(ctx context.Context) (first bool, err error) {
	reply, err := p.run(ctx, goneAfter.Microseconds())
	switch {
	case err == nil && len(reply) == 2:
		if p.fails >= maxFails {
			p.waiter.State(true, nil)
		}
		p.arrival, p.fails = reply[0], 0
		if reply[1] > 0 {
			p.waiter.Waiting(int(reply[1]))
		}
		return reply[1] == 0, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case p.arrival == 0:
		return false, failed(err)
	}
	p.fails++
	if p.fails == maxFails {
		p.waiter.State(false, failed(err))
	}
	return false, nil
}

// keep keeps the place until it is left.
func (p *place) keep(ctx context.Context) (leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.waiter = Waiter{func(int) {}, func(bool, error) {}} // from now on the limiter reports an unreachable server
	left := make(chan struct{})
	go func() {
		defer close(left)
		look := time.NewTicker(seenEvery)
		defer look.Stop()
		for {
			select {
			case <-look.C:
				_, _ = p.stay(ctx)
			case <-ctx.Done():
				p.leave(ctx)
				return
			}
		}
	}()
	return func() {
		cancel()
		<-left
	}
}

// leave gives up the place. If the server does not reply, it removes the process after goneAfter.
func (p *place) leave(ctx context.Context) {
	if p.arrival == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneAfter)
	defer cancel()
	_, _ = p.run(ctx, 0)
}

func (p *place) run(ctx context.Context, timeout int64) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.store.timeout)
	defer cancel()
	keys := []string{p.channel(), p.channel() + ":seen"}
	return lineScript.Run(ctx, p.store.client, keys, p.name, p.arrival, timeout).Int64Slice()
}
