package channels

import (
	"context"
	"math"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// buffered is a channel of ours with the interface of this package's: what comes In is sent, and Out offers the oldest item,
// which keeps its permit until it is taken.
type buffered struct {
	in    chan interface{}
	out   <-chan interface{}
	items *channel.LimitedChannel[interface{}]
}

func newBuffered(l core.Limiter, o channel.Overflow) buffered {
	items, err := channel.New[interface{}](channel.Options[interface{}]{Limiter: l, Overflow: o})
	if err != nil {
		panic(err)
	}
	b := buffered{make(chan interface{}), items.Chan(context.Background()), items}
	go func() {
		for v := range b.in {
			_ = items.Send(context.Background(), v) // it is dropped, or sent
		}
		_ = items.Close()
	}()
	return b
}

func (b buffered) In() chan<- interface{}  { return b.in }
func (b buffered) Out() <-chan interface{} { return b.out }
func (b buffered) Len() int                { return b.items.Len() }
func (b buffered) Close()                  { close(b.in) }

// limiter bounds a channel to size items.
func limiter(size BufferCap) *core.ConcurrencyLimiter {
	n := math.MaxInt
	if size != Infinity {
		n = int(size)
	}
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: n, QueueLimit: 1}))
}

// InfiniteChannel has no limit.
type InfiniteChannel struct{ buffered }

// NewInfiniteChannel returns an InfiniteChannel.
func NewInfiniteChannel() *InfiniteChannel {
	return &InfiniteChannel{newBuffered(core.Unlimited(), channel.Reject)}
}

// Cap returns Infinity.
func (ch *InfiniteChannel) Cap() BufferCap { return Infinity }

// OverflowingChannel drops what comes while it is full.
type OverflowingChannel struct{ Channel }

// NewOverflowingChannel returns an OverflowingChannel of a size.
func NewOverflowingChannel(size BufferCap) *OverflowingChannel {
	if size == None {
		return &OverflowingChannel{newUnbuffered()}
	}
	return &OverflowingChannel{sized{newBuffered(limiter(size), channel.DropIncoming), size}}
}

// RingChannel drops the oldest item for one that comes while it is full.
type RingChannel struct{ Channel }

// NewRingChannel returns a RingChannel of a size.
func NewRingChannel(size BufferCap) *RingChannel {
	if size == None {
		return &RingChannel{newUnbuffered()}
	}
	return &RingChannel{sized{newBuffered(limiter(size), channel.DropOldest), size}}
}

type sized struct {
	buffered

	size BufferCap
}

func (s sized) Cap() BufferCap { return s.size }

// ResizableChannel has a limit that changes.
type ResizableChannel struct {
	buffered

	limiter *core.ConcurrencyLimiter
}

// NewResizableChannel returns a ResizableChannel for one item.
func NewResizableChannel() *ResizableChannel {
	l := limiter(1)
	return &ResizableChannel{newBuffered(l, channel.Reject), l}
}

// Cap returns the limit.
func (ch *ResizableChannel) Cap() BufferCap {
	if n := ch.limiter.Options().PermitLimit; n < math.MaxInt {
		return BufferCap(n)
	}
	return Infinity
}

// Resize changes the limit.
func (ch *ResizableChannel) Resize(size BufferCap) {
	o := limiter(size).Options()
	if err := ch.limiter.Update(o); err != nil {
		panic(err)
	}
}

// newUnbuffered returns a channel that drops what nobody is there to receive. A channel of ours has room for an item at
// least, so this one is Go's.
func newUnbuffered() Channel {
	ch := &unbuffered{make(chan interface{}), make(chan interface{})}
	go func() {
		defer close(ch.out)
		for v := range ch.in {
			select {
			case ch.out <- v:
			default:
			}
		}
	}()
	return ch
}

type unbuffered struct{ in, out chan interface{} }

func (ch *unbuffered) In() chan<- interface{}  { return ch.in }
func (ch *unbuffered) Out() <-chan interface{} { return ch.out }
func (ch *unbuffered) Len() int                { return 0 }
func (ch *unbuffered) Cap() BufferCap          { return None }
func (ch *unbuffered) Close()                  { close(ch.in) }
