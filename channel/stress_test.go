package channel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// parcel is an item of the stress tests: the n-th of its sender.
type parcel struct{ sender, n, cost int }

// ledger counts what became of each parcel.
type ledger struct {
	fates [][]atomic.Int32 // by sender and number
	t     *testing.T
}

func newLedger(t *testing.T, senders, each int) *ledger {
	t.Helper()
	l := &ledger{fates: make([][]atomic.Int32, senders), t: t}
	for i := range l.fates {
		l.fates[i] = make([]atomic.Int32, each)
	}
	return l
}

func (l *ledger) note(p parcel) { l.fates[p.sender][p.n].Add(1) }

// balances requires that each parcel met one fate.
func (l *ledger) balances() {
	l.t.Helper()
	for sender := range l.fates {
		for n := range l.fates[sender] {
			require.EqualValues(l.t, 1, l.fates[sender][n].Load(), "parcel %d of sender %d", n, sender)
		}
	}
}

// stress is a channel with senders and receivers that cancel, drop and discard.
type stress struct {
	*testing.T
	*ledger
	c        *channel.LimitedChannel[parcel]
	senders  int
	ways     []int // of the receivers
	discards bool  // items are discarded meanwhile
	abandons bool  // Chans are abandoned meanwhile
	admits   bool  // no send is rejected
}

const stressEach = 500

func (s *stress) run() {
	s.ledger = newLedger(s.T, s.senders, stressEach)
	var senders, receivers, others sync.WaitGroup
	for i := range s.senders {
		senders.Go(func() { s.send(i) })
	}
	for _, way := range s.ways {
		receivers.Go(func() { s.receive(way) })
	}
	stop := make(chan struct{})
	if s.discards {
		others.Go(func() { s.disturb(stop) })
	}
	senders.Wait()
	close(stop)
	others.Wait()
	assert.NoError(s.T, s.c.Close())
	receivers.Wait()
	<-s.c.Done()
	s.balances()
}

// send sends all parcels of one sender, in any way, until each has a fate.
func (s *stress) send(sender int) {
	r := rand.New(rand.NewPCG(1, uint64(sender)))
	for n := range stressEach {
		p := parcel{sender, n, r.IntN(4)}
		var err error
		switch r.IntN(4) {
		case 0:
			err = s.c.TrySend(p)
		case 1:
			ctx, cancel := context.WithCancel(s.T.Context())
			go cancel()
			err = s.c.Send(ctx, p)
			cancel()
		default:
			err = s.c.Send(s.T.Context(), p)
		}
		if err != nil {
			s.note(p)
			if !errors.Is(err, context.Canceled) && (s.admits || !errors.Is(err, core.ErrRejected)) {
				assert.NoError(s.T, err)
			}
		}
	}
}

// receive takes parcels in one of five ways until the channel is closed and empty. What one
// receiver gets of one sender comes in order, unless a Chan returns an offered item: that
// may be older than what has been delivered since.
func (s *stress) receive(way int) {
	latest := make([]int, s.senders)
	got := func(p parcel) {
		s.note(p)
		if p.n < latest[p.sender] && !s.abandons {
			s.T.Errorf("way %d: parcel %d of sender %d after %d", way, p.n, p.sender, latest[p.sender]-1)
		}
		latest[p.sender] = p.n + 1
	}
	ctx := s.T.Context()
	switch way {
	case 0:
		for p := range s.c.All(ctx) {
			got(p)
		}
	case 1:
		for p := range s.c.Chan(ctx) {
			got(p)
		}
	case 2:
		for dst := make([]parcel, 20); ; {
			n, err := s.c.ReceiveBatch(ctx, dst)
			if err != nil {
				return
			}
			for _, p := range dst[:n] {
				got(p)
			}
		}
	case 3:
		for {
			p, lease, err := s.c.ReceiveLease(ctx)
			if err != nil {
				return
			}
			got(p)
			lease.Release()
		}
	case 4:
		s.receiveCanceling(got)
	}
}

func (s *stress) receiveCanceling(got func(parcel)) {
	for {
		ctx, cancel := context.WithCancel(s.T.Context())
		go cancel()
		p, err := s.c.Receive(ctx)
		cancel()
		runtime.Gosched() // else the two that wake each other keep the only CPU there may be
		switch {
		case err == nil:
			got(p)
		case errors.Is(err, channel.ErrClosed):
			return
		}
		if p, ok := s.c.TryReceive(); ok {
			got(p)
		}
	}
}

// disturb discards, peeks, and has Chan consumers who go away.
func (s *stress) disturb(stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		if s.abandons {
			s.abandon(stop, i%2 == 0)
		}
		s.c.TryPeek()
		runtime.Gosched()
		if i%50 == 0 {
			s.c.Discard() // OnDrop notes them
		}
	}
}

// abandon has a Chan whose consumer goes away, immediately or with the first item.
func (s *stress) abandon(stop <-chan struct{}, takes bool) {
	ctx, cancel := context.WithCancel(s.T.Context())
	defer cancel()
	out := s.c.Chan(ctx)
	if takes {
		select {
		case p := <-out:
			s.note(p)
		case <-stop:
		}
	}
}

// stressed runs f without and with Chans that are abandoned.
func stressed(t *testing.T, name string, f func(t *testing.T, abandons bool)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { f(t, false) })
	t.Run(name+" beside abandoned Chans", func(t *testing.T) { f(t, true) })
}

func newStress(t *testing.T, abandons bool) *stress {
	t.Helper()
	return &stress{T: t, senders: 6, ways: []int{0, 1, 2, 3, 4}, discards: true, abandons: abandons}
}

func TestStress(t *testing.T) {
	cost := func(p parcel) int { return p.cost }
	for _, mode := range []channel.Overflow{channel.Wait, channel.DropOldest, channel.DropNewest, channel.DropIncoming} {
		for _, capacity := range []int{0, 5} {
			stressed(t, mode.String(), func(t *testing.T, abandons bool) {
				l := limiter(t, core.ConcurrencyLimiterOptions{PermitLimit: 12, QueueLimit: 6})
				s := newStress(t, abandons)
				s.c = open(t, channel.Options[parcel]{
					Limiter: l, Cost: cost, Capacity: capacity, Overflow: mode,
					OnDrop: func(p parcel) { s.note(p) },
				})
				s.run()
				require.Equal(t, 12, l.Available())
				require.Zero(t, l.Statistics().Queued)
			})
		}
	}
	stressed(t, "chain", func(t *testing.T, abandons bool) {
		a, b := permits(t, 9), permits(t, 7)
		l, err := core.Chain(a, b)
		require.NoError(t, err)
		s := newStress(t, abandons)
		s.c = open(t, channel.Options[parcel]{Limiter: l, Cost: cost, OnDrop: func(p parcel) { s.note(p) }})
		s.run()
		require.Equal(t, 9, a.Available())
		require.Equal(t, 7, b.Available())
	})
}

// TestStressMailbox has senders that drop and a receiver at a small channel. With core's concurrency limiter no send is
// rejected, whatever the receiver takes meanwhile; but a Chan's consumer, or a lease, may hold all the permits.
func TestStressMailbox(t *testing.T) {
	for mode := channel.DropOldest; mode <= channel.DropIncoming; mode++ {
		for _, room := range []int{1, 2} {
			for way := range 5 {
				for name, l := range limiters(t, refusing(t, room)) {
					t.Run(fmt.Sprintf("%v %d %s", mode, way, name), func(t *testing.T) {
						s := &stress{T: t, senders: 3, ways: []int{way}, admits: name == "itself" && way != 1 && way != 3}
						s.c = open(t, channel.Options[parcel]{Limiter: l, Overflow: mode, OnDrop: func(p parcel) { s.note(p) }})
						s.run()
						require.Equal(t, room, l.Available())
					})
				}
			}
		}
	}
}

// TestStressBounded closes while all of them run.
func TestStressBounded(t *testing.T) {
	rounds := 200
	if runtime.GOMAXPROCS(0) == 1 {
		rounds = 30 // two goroutines that wake each other keep the CPU for a time slice
	}
	for round := range rounds {
		c := bounded(t, 1+round%5)
		var sent, received atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for c.Send(t.Context(), 1) == nil {
					sent.Add(1)
				}
			})
			wg.Go(func() {
				for range c.All(t.Context()) {
					received.Add(1)
				}
			})
			wg.Go(func() {
				for {
					_, lease, err := c.ReceiveLease(t.Context())
					if err != nil {
						return
					}
					received.Add(1)
					lease.Release()
				}
			})
		}
		for sent.Load() < 100 {
			received.Add(int64(c.Discard()))
			runtime.Gosched() // else this goroutine keeps the only CPU there may be
		}
		require.NoError(t, c.Close())
		wg.Wait()
		<-c.Done()
		require.Equal(t, sent.Load(), received.Load())
		require.Zero(t, c.Len())
	}
}

// TestStressCapacity has users outside the channel that take and return the permits which the sends lack.
func TestStressCapacity(t *testing.T) {
	l := permits(t, 2)
	c := open(t, channel.Options[int]{Limiter: l, Capacity: 1, Overflow: channel.DropIncoming})
	sends(t, c, 1)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				lease := l.TryAcquire(1)
				lease.Release()
			}
		})
	}
	for range 300_000 {
		_ = c.TrySend(2)
	}
	stop.Store(true)
	wg.Wait()
	require.Equal(t, 1, c.Len())
	require.Equal(t, 1, l.Available())
}
