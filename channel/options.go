package channel

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// Options are the terms of a [LimitedChannel].
type Options[T any] struct {
	// Limiter grants each item its permits before it is queued. Required. It may be any
	// limiter or chain, and several channels may share it.
	Limiter core.Limiter

	// Permits is what an item costs, in the limiter's permits: bytes, say. nil: 1 each. It
	// is called once per send, with no lock held, and must not be below 0. An item of 0
	// permits is queued when the limiter grants a probe: when any permit is available.
	Permits func(T) int

	// Capacity bounds the items queued, beside the limiter. 0: no such bound.
	Capacity int

	// Overflow is what a send does when the limiter or the capacity refuses. The drop
	// modes never wait for capacity.
	Overflow Overflow

	// OnDrop is told of every item dropped: by an Overflow mode or by Discard. It runs on
	// the goroutine of that send or Discard, before that returns; the item's lease has been
	// released, and no lock is held, so it may use the channel. nil: nobody is told.
	//
	// A send in OnDrop may drop another item, and so call OnDrop again, inside this call.
	// One that sends whatever it is told of back to its own channel never ends, as each
	// send drops the next: send to another channel, or stop at some depth of your own.
	OnDrop func(T)
}

func (o *Options[T]) validate() error {
	var errs []error
	if argument.IsNil(o.Limiter) {
		errs = append(errs, errors.New("channel: Options.Limiter = nil, want a limiter (core.Unlimited() for none)"))
	}
	if o.Capacity < 0 {
		errs = append(errs, fmt.Errorf("channel: Options.Capacity = %d, want at least 0", o.Capacity))
	}
	if int(o.Overflow) >= len(overflowNames) {
		errs = append(errs, fmt.Errorf("channel: Options.Overflow = %d, want Reject, DropOldest, DropNewest or DropIncoming",
			uint8(o.Overflow)))
	}
	return errors.Join(errs...)
}
