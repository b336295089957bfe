package channel_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// model is a LimitedChannel as one would first write it: a native channel that is drained
// and refilled where it has to be looked into. No caller waits in it.
type model struct {
	items    chan int // a cost each
	limit    int      // permits
	capacity int
	overflow channel.Overflow
	closed   bool
	kept     []int // costs whose leases receivers hold
	dropped  []int
}

func (m *model) queued() []int {
	var all []int
	for range len(m.items) {
		v := <-m.items
		all = append(all, v)
		m.items <- v
	}
	return all
}

func (m *model) refill(all []int) {
	for range len(m.items) {
		<-m.items
	}
	for _, v := range all {
		m.items <- v
	}
}

func (m *model) available() int {
	free := m.limit
	for _, v := range append(m.queued(), m.kept...) {
		free -= v
	}
	return free
}

// evict drops the item that the mode drops first.
func (m *model) evict() {
	all, i := m.queued(), 0
	if m.overflow == channel.DropNewest {
		i = len(all) - 1
	}
	m.dropped = append(m.dropped, all[i])
	m.refill(slices.Delete(all, i, i+1))
}

// send returns the reason of a refusal, or an error that says so itself.
func (m *model) send(v int) (reason string, err error) {
	evicts := m.overflow == channel.DropOldest || m.overflow == channel.DropNewest
	switch {
	case m.closed:
		return "", channel.ErrClosed
	case v > m.limit:
		return "", core.ErrPermitsExceedLimit
	}
	for max(v, 1) > m.available() {
		switch {
		case evicts && len(m.items) > 0:
			m.evict()
		case m.overflow == channel.DropIncoming:
			m.dropped = append(m.dropped, v)
			return "", nil
		default:
			return "permits exhausted", nil
		}
	}
	for len(m.items) >= m.capacity {
		switch {
		case evicts:
			m.evict()
		case m.overflow == channel.DropIncoming:
			m.dropped = append(m.dropped, v)
			return "", nil
		default:
			return "capacity reached", nil
		}
	}
	m.items <- v
	return "", nil
}

// pair is a channel beside its model.
type pair struct {
	*testing.T
	m       model
	kind    string // of limiters
	c       *channel.LimitedChannel[int]
	l       *core.ConcurrencyLimiter
	leases  []core.Lease
	dropped []int
}

func newPair(t *testing.T, setup, kind byte) *pair {
	t.Helper()
	kinds := []string{"itself", "wrapped", "chain", "reason"}
	p := &pair{T: t, kind: kinds[int(kind)%len(kinds)], m: model{
		items: make(chan int, 1000), limit: 1 + int(setup>>4), capacity: 1000, overflow: channel.Overflow(setup & 3),
	}}
	o := channel.Options[int]{Permits: itself, Overflow: p.m.overflow}
	if setup&4 != 0 {
		p.m.capacity = 1 + int(setup>>3&3)
		o.Capacity = p.m.capacity
	}
	p.l = refusing(t, p.m.limit)
	o.Limiter = limiters(t, p.l)[p.kind]
	o.OnDrop = func(v int) { p.dropped = append(p.dropped, v) }
	p.c = open(t, o)
	return p
}

func (p *pair) do(op byte) {
	v := int(op >> 3)
	switch op & 7 {
	case 0, 1:
		p.send(v)
	case 2:
		p.sendBatch(v)
	case 3:
		got, ok := p.c.TryReceive()
		p.same(got, ok)
	case 4:
		p.keep(v%2 == 0)
	case 5:
		p.batch(v)
	case 6:
		if len(p.leases) > 0 {
			i := v % len(p.leases)
			p.leases[i].Release()
			p.leases, p.m.kept = slices.Delete(p.leases, i, i+1), slices.Delete(p.m.kept, i, i+1)
		}
	case 7:
		p.end(v)
	}
}

func (p *pair) send(v int) {
	reason, err := p.m.send(v)
	got := p.c.TrySend(v)
	switch {
	case reason == "permits exhausted":
		refuses(p.T, got, reasonOf(p.kind))
	case reason != "":
		refuses(p.T, got, reason)
	case err != nil:
		require.ErrorIs(p, got, err)
	default:
		require.NoError(p, got)
	}
}

// same requires that the received item is the model's first.
func (p *pair) same(got int, ok bool) {
	select {
	case v := <-p.m.items:
		require.True(p, ok)
		require.Equal(p, v, got)
	default:
		require.False(p, ok)
	}
}

// sendBatch sends three items.
func (p *pair) sendBatch(v int) {
	if p.m.overflow == channel.Reject {
		p.send(v) // a batch would wait
		return
	}
	items, sent, refused := []int{v + 1, v/2 + 1, v/3 + 1}, 0, false
	for _, v := range items {
		reason, err := p.m.send(v)
		if refused = reason != "" || err != nil; refused {
			break
		}
		sent++
	}
	n, err := p.c.SendBatch(p.Context(), items)
	require.Equal(p, sent, n)
	require.Equal(p, refused, err != nil, "%v", err)
}

// keep receives an item and keeps its lease.
func (p *pair) keep(try bool) {
	if len(p.m.items) == 0 && !try {
		return // it would wait
	}
	var v int
	var lease core.Lease
	if try {
		var ok bool
		v, lease, ok = p.c.TryReceiveLease()
		require.Equal(p, len(p.m.items) > 0, ok)
		if !ok {
			return
		}
	} else {
		var err error
		v, lease, err = p.c.ReceiveLease(p.Context())
		require.NoError(p, err)
	}
	p.same(v, true)
	require.Equal(p, v, lease.Permits())
	p.leases, p.m.kept = append(p.leases, lease), append(p.m.kept, v)
}

func (p *pair) batch(size int) {
	if len(p.m.items) == 0 {
		return
	}
	dst := make([]int, size)
	n, err := p.c.ReceiveBatch(p.Context(), dst)
	require.NoError(p, err)
	require.Equal(p, min(size, len(p.m.items)), n)
	for _, v := range dst[:n] {
		p.same(v, true)
	}
}

// end discards, or closes.
func (p *pair) end(v int) {
	if v < 24 {
		all := p.m.queued()
		p.m.refill(nil)
		p.m.dropped = append(p.m.dropped, all...)
		require.Equal(p, len(all), p.c.Discard())
		return
	}
	require.NoError(p, p.c.Close())
	p.m.closed = true
}

func (p *pair) agrees() {
	require.Equal(p, p.m.dropped, p.dropped)
	require.Equal(p, p.m.available(), p.l.Available())
	require.Equal(p, len(p.m.items), p.c.Len())
	over := false
	select {
	case <-p.c.Done():
		over = true
	default:
	}
	require.Equal(p, p.m.closed && len(p.m.items) == 0, over)
	v, ok := p.c.TryPeek()
	if all := p.m.queued(); len(all) > 0 {
		require.True(p, ok)
		require.Equal(p, all[0], v)
	} else {
		require.False(p, ok)
	}
}

func FuzzChannel(f *testing.F) {
	f.Add([]byte{0x30, 0, 8, 8, 16, 8, 3, 4, 8, 6, 5, 7, 0xff, 3})
	f.Add([]byte{0x71, 0, 0, 8, 24, 32, 8, 40, 8, 7, 8})
	f.Add([]byte{0x72, 2, 0, 8, 24, 32, 8, 40, 4, 8, 16, 6, 48})
	f.Add([]byte{0x77, 1, 8, 8, 8, 8, 8, 3, 8, 0xff, 13})
	f.Add([]byte{0x75, 3, 8, 16, 8, 0, 8, 8, 5, 45, 0xff, 13})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) >= 2 && len(ops) <= 500 {
			play(t, ops)
		}
	})
}

func play(t *testing.T, ops []byte) {
	t.Helper()
	p := newPair(t, ops[0], ops[1])
	for _, op := range ops[2:] {
		p.do(op)
		p.agrees()
	}
}

// TestRandomCalls is a short walk of the fuzz target, the same each time.
func TestRandomCalls(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range testkit.Rounds(2000) {
		ops := make([]byte, 2+random.IntN(60))
		for i := range ops {
			ops[i] = byte(random.Uint32())
			if i >= 2 && ops[i]&7 == 7 && random.IntN(4) > 0 {
				ops[i] = 8 // a Close or Discard ends the interesting part
			}
		}
		play(t, ops)
	}
}
