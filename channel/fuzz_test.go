package channel_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// model is a LimitedChannel as one would first write it, of lists. An item is a number.
type model struct {
	one      bool // each item costs one permit, not as many as its number
	bounded  bool // made by Bounded
	limit    int  // permits
	capacity int
	overflow channel.Overflow
	closed   bool
	items    []int
	dropped  []int

	kept      []*waiter // receivers that hold the lease of their item
	unplaced  []*waiter // senders that wait for room
	unpaid    []*waiter // senders that have room and wait for permits
	receivers []*waiter // that wait for an item
	asked     bool      // the sender in unplaced has just come, and has not waited
}

// waiter is a call that waits, or has waited.
type waiter struct {
	*call[int]

	cancel context.CancelFunc
	item   int
	keeps  bool // the lease
	leads  bool // a sender that has waited for room
	lease  core.Lease
}

func (m *model) cost(v int) int {
	if m.one {
		return 1
	}
	return v
}

func (m *model) available() int {
	free := m.limit
	for _, v := range m.items {
		free -= m.cost(v)
	}
	for _, w := range m.kept {
		free -= m.cost(w.item)
	}
	return free
}

// fits reports whether there are permits for v. If v costs nothing, one must be there.
func (m *model) fits(v int) bool { return max(m.cost(v), 1) <= m.available() }

// granted reports whether v gets permits without waiting: it overtakes no sender that waits, unless it costs nothing.
func (m *model) granted(v int) bool { return m.fits(v) && (len(m.unpaid) == 0 || m.cost(v) == 0) }

// room reports whether there is room for one more item.
func (m *model) room() bool { return len(m.items)+len(m.unpaid) < m.capacity }

// first reports whether there is room, and no sender that has waited for it is ahead.
func (m *model) first() bool {
	return m.room() && !slices.ContainsFunc(m.unpaid, func(w *waiter) bool { return w.leads })
}

// evict drops the item that the mode drops first.
func (m *model) evict() {
	i := 0
	if m.overflow == channel.DropNewest {
		i = len(m.items) - 1
	}
	m.dropped = append(m.dropped, m.items[i])
	m.items = slices.Delete(m.items, i, i+1)
}

// send decides about an item that cannot wait. It returns the reason of a refusal, or an error that says so itself;
// admitted tells an item that is to be put from one that was dropped.
func (m *model) send(v int) (admitted bool, reason string, err error) {
	evicts := m.overflow == channel.DropOldest || m.overflow == channel.DropNewest
	switch {
	case m.closed:
		return false, "", channel.ErrClosed
	case m.cost(v) > m.limit:
		return false, "", core.ErrPermitsExceedLimit
	}
	type want struct {
		reason string
		there  func() bool
	}
	full := "capacity reached"
	if m.bounded {
		full = "permits exhausted"
	}
	wants := []want{{full, m.first}, {"permits exhausted", func() bool { return m.granted(v) }}}
	if evicts {
		slices.Reverse(wants) // what is dropped for the permits makes room too
	}
	for _, want := range wants {
		for !want.there() {
			switch {
			case evicts && len(m.items) > 0:
				m.evict()
			case m.overflow == channel.DropIncoming:
				m.dropped = append(m.dropped, v)
				return false, "", nil
			default:
				return false, want.reason, nil
			}
		}
	}
	return true, "", nil
}

// pair is a channel beside its model.
type pair struct {
	*testing.T
	model

	kind    string // of limiters
	c       *channel.LimitedChannel[int]
	l       *core.ConcurrencyLimiter // nil if bounded
	reports []int                    // of OnDrop
}

func newPair(t *testing.T, setup, kind byte) *pair {
	t.Helper()
	kinds := []string{"itself", "wrapped", "chain", "reason", "bounded"}
	p := &pair{T: t, kind: kinds[int(kind)%len(kinds)], model: model{limit: 1 + int(setup>>4), capacity: 1000}}
	if p.kind == "bounded" {
		p.one, p.model.bounded, p.capacity = true, true, p.limit
		p.c = bounded(t, p.limit)
		return p
	}
	p.overflow = channel.Overflow(setup & 3)
	p.l = refusing(t, p.limit)
	if p.kind == "wrapped" {
		p.l = permits(t, p.limit) // the queue of a user's limiter is bounded by its QueueLimit
	}
	o := channel.Options[int]{
		Limiter: limiters(t, p.l)[p.kind], Cost: itself, Overflow: p.overflow,
		OnDrop: func(v int) { p.reports = append(p.reports, v) },
	}
	if setup&4 != 0 {
		p.capacity = 1 + int(setup>>3&3)
		o.Capacity = p.capacity
	}
	p.c = open(t, o)
	return p
}

func (p *pair) do(op byte) {
	v := int(op >> 4)
	switch op & 15 {
	case 0, 1:
		p.sent(v, p.c.TrySend)
	case 2, 3:
		p.send(v)
	case 4:
		p.sendBatch(v)
	case 5:
		p.tryReceive()
	case 6, 7:
		p.receive(v%2 == 0)
	case 8:
		p.tryReceiveLease()
	case 9:
		p.receiveBatch(v)
	case 10:
		p.release(v)
	case 11:
		p.cancel(v, false)
	case 12:
		p.cancel(v, true)
	case 13:
		p.resize(v)
	case 14:
		p.discard()
	case 15:
		if v == 0 {
			p.close()
		}
	}
}

// sent sends v by a call that does not wait.
func (p *pair) sent(v int, send func(int) error) {
	admitted, reason, want := p.model.send(v)
	switch err := send(v); {
	case reason == "permits exhausted":
		refuses(p.T, err, reasonOf(p.kind))
	case reason != "":
		refuses(p.T, err, reason)
	case want != nil:
		require.ErrorIs(p, err, want)
	default:
		require.NoError(p, err)
	}
	if admitted {
		p.put(v)
	}
}

// put hands v to a receiver, or queues it.
func (p *pair) put(v int) {
	if len(p.receivers) == 0 {
		p.items = append(p.items, v)
		return
	}
	w := p.receivers[0]
	p.receivers = p.receivers[1:]
	p.received(w, v)
	p.settle()
}

// received requires that w has received v.
func (p *pair) received(w *waiter, v int) {
	require.Equal(p, v, w.ends(p.T, nil))
	if w.keeps {
		w.item = v
		require.Equal(p, p.cost(v), w.lease.Permits())
		p.kept = append(p.kept, w)
	}
}

// taken requires that a receiver got the oldest item.
func (p *pair) taken(got int) {
	require.Equal(p, p.items[0], got)
	p.items = p.items[1:]
	p.settle()
}

// settle lets in the senders for whom there are room and permits.
func (p *pair) settle() {
	for len(p.unplaced) > 0 && p.first() {
		p.unplaced[0].leads = !p.asked
		p.unpaid, p.unplaced = append(p.unpaid, p.unplaced[0]), p.unplaced[1:]
	}
	p.asked = false
	if len(p.unpaid) == 0 || !p.fits(p.unpaid[0].item) {
		return
	}
	w := p.unpaid[0]
	p.unpaid = p.unpaid[1:]
	w.ends(p.T, nil)
	p.put(w.item)
	p.settle()
}

func (p *pair) send(v int) {
	switch {
	case p.overflow != channel.Wait:
		p.sent(v, func(v int) error { return p.c.Send(p.Context(), v) })
		return
	case len(p.unplaced)+len(p.unpaid) > 0 && p.kind != "bounded":
		return // two that get permits together may be queued in either order
	}
	ctx, cancel := context.WithCancel(p.Context())
	w := &waiter{cancel: cancel, item: v, call: start(func() (int, error) { return 0, p.c.Send(ctx, v) })}
	switch {
	case p.closed:
		w.ends(p.T, channel.ErrClosed)
	case p.cost(v) > p.limit:
		w.ends(p.T, core.ErrPermitsExceedLimit)
	default:
		p.unplaced = append(p.unplaced, w)
		p.asked = true
		p.settle()
	}
}

// sendBatch sends three items in a mode in which a batch does not wait.
func (p *pair) sendBatch(v int) {
	if p.overflow == channel.Wait || len(p.receivers) > 0 {
		p.send(v)
		return
	}
	items, sent, refused := []int{v + 1, v/2 + 1, v/3 + 1}, 0, false
	for _, v := range items {
		admitted, reason, err := p.model.send(v)
		if refused = reason != "" || err != nil; refused {
			break
		}
		if admitted {
			p.put(v)
		}
		sent++
	}
	n, err := p.c.SendBatch(p.Context(), items)
	require.Equal(p, sent, n)
	require.Equal(p, refused, err != nil, "%v", err)
}

func (p *pair) receive(keeps bool) {
	ctx, cancel := context.WithCancel(p.Context())
	w := &waiter{cancel: cancel, keeps: keeps}
	w.call = start(func() (v int, err error) {
		if keeps {
			v, w.lease, err = p.c.ReceiveLease(ctx)
			return v, err
		}
		return p.c.Receive(ctx)
	})
	switch {
	case len(p.items) > 0:
		v := p.items[0]
		p.items = p.items[1:]
		p.received(w, v)
		p.settle()
	case p.closed:
		w.ends(p.T, channel.ErrClosed)
	default:
		p.receivers = append(p.receivers, w)
	}
}

func (p *pair) tryReceive() {
	v, ok := p.c.TryReceive()
	require.Equal(p, len(p.items) > 0, ok)
	if ok {
		p.taken(v)
	}
}

func (p *pair) tryReceiveLease() {
	v, lease, ok := p.c.TryReceiveLease()
	require.Equal(p, len(p.items) > 0, ok)
	require.Equal(p, ok, lease.Acquired())
	if ok {
		require.Equal(p, p.cost(v), lease.Permits())
		p.kept = append(p.kept, &waiter{item: v, lease: lease})
		p.taken(v)
	}
}

func (p *pair) receiveBatch(size int) {
	if len(p.items) == 0 {
		return
	}
	dst := make([]int, min(size, len(p.items))) // a longer one also gets items of senders that it lets in
	n, err := p.c.ReceiveBatch(p.Context(), dst)
	require.NoError(p, err)
	require.Len(p, dst, n)
	require.Equal(p, p.items[:n], dst[:n])
	p.items = p.items[n:]
	p.settle()
}

// release releases a lease that a receiver keeps, twice.
func (p *pair) release(v int) {
	if len(p.kept) == 0 {
		return
	}
	i := v % len(p.kept)
	p.kept[i].lease.Release()
	p.kept[i].lease.Release()
	p.kept = slices.Delete(p.kept, i, i+1)
	p.settle()
}

// cancel cancels a call that waits. With soon, an item leaves or comes before the canceled call can have noticed: it gets
// neither the room nor the item.
func (p *pair) cancel(v int, soon bool) {
	for _, waiting := range []*[]*waiter{&p.unplaced, &p.unpaid, &p.receivers} {
		if len(*waiting) == 0 {
			continue
		}
		i := v % len(*waiting)
		w := (*waiting)[i]
		*waiting = slices.Delete(*waiting, i, i+1)
		w.cancel()
		switch {
		case soon && len(p.items) > 0:
			p.tryReceive()
		case soon && waiting == &p.receivers:
			p.sent(v, p.c.TrySend)
		}
		w.ends(p.T, context.Canceled)
		p.settle()
		return
	}
}

func (p *pair) resize(n int) {
	if n == 0 || p.l == nil || slices.ContainsFunc(slices.Concat(p.unpaid, p.unplaced), func(w *waiter) bool { return w.item > n }) {
		return
	}
	o := p.l.Options()
	o.PermitLimit = n
	require.NoError(p, p.l.Update(o))
	p.limit = n
	p.settle()
}

func (p *pair) discard() {
	n := p.c.Discard()
	require.Equal(p, len(p.items), n)
	if p.kind != "bounded" {
		p.dropped = append(p.dropped, p.items...)
	}
	p.items = nil
	p.settle()
}

func (p *pair) close() {
	require.NoError(p, p.c.Close())
	p.closed = true
	for _, w := range slices.Concat(p.unplaced, p.unpaid, p.receivers) {
		w.ends(p.T, channel.ErrClosed)
	}
	p.unplaced, p.unpaid, p.receivers = nil, nil, nil
}

func (p *pair) agrees() {
	for _, w := range slices.Concat(p.unplaced, p.unpaid, p.receivers) {
		w.waits(p.T)
	}
	require.Equal(p, p.dropped, p.reports)
	if p.l != nil {
		require.Equal(p, max(p.available(), 0), p.l.Available())
	}
	require.Equal(p, len(p.items), p.c.Len())
	require.Equal(p, p.closed && len(p.items) == 0, over(p.c))
	v, ok := p.c.TryPeek()
	require.Equal(p, len(p.items) > 0, ok)
	if ok {
		require.Equal(p, p.items[0], v)
	}
}

// play makes the calls that the bytes stand for, on a channel and on its model, and compares them after each.
func play(t *testing.T, ops []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, ops[0], ops[1])
		for _, op := range ops[2:] {
			p.do(op)
			p.agrees()
		}
		p.close()
	})
}

func FuzzChannel(f *testing.F) {
	f.Add([]byte("\x30\x00\x10\x20\x12\x05\x06\x10\x0a\x0e"))
	f.Add([]byte("\x71\x01\x10\x20\x30\x40\x14\x0d\x2d\x0f"))
	f.Add([]byte("\x75\x02\x20\x20\x22\x05\x0c\x06\x0c\x18"))
	f.Add([]byte("\x20\x04\x10\x20\x30\x12\x22\x32\x05\x08\x0a\x0b\x0e"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) >= 2 && len(ops) <= 500 {
			play(t, ops)
		}
	})
}

// TestRandomCalls is a short walk of the fuzz target, the same each time.
func TestRandomCalls(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range testkit.Rounds(2000) {
		ops := make([]byte, 2+random.IntN(60))
		for i := range ops {
			ops[i] = byte(random.Uint32())
			if i >= 2 && ops[i]&15 >= 14 && random.IntN(4) > 0 {
				ops[i] = 0x20 // a Close or Discard ends the interesting part
			}
		}
		play(t, ops)
	}
}
