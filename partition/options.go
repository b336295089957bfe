package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Options are the terms of a [Keyed].
type Options[R any, K comparable] struct {
	// Name is what errors call the Keyed, and the limiter that a request is rejected by for
	// want of room; "": none.
	Name string

	// Key returns the key of the partition that a request belongs to. Required. A key that
	// does not equal itself, such as NaN, is refused with an error.
	Key func(R) K

	// New makes the limiter of a key's partition. Required. It is called when a request
	// comes for a key that has none, so again and again for one that comes and goes: it
	// returns a limiter of its own each time, with the terms that are in force now. What is
	// shared must hide its Close, as a dropped limiter is closed. New may block: requests of
	// other keys do not wait for it. It may use the Keyed for other keys.
	New func(K) (core.Limiter, error)

	// IdleTimeout is how long a partition's limiter must have been idle for the partition
	// to be dropped; 0: 10 s.
	IdleTimeout time.Duration

	// MaxPartitions is how many partitions are live at most, those that are being made
	// included; 0: 1<<20.
	MaxPartitions int

	// Overflow decides for the requests of keys that find no room; all such keys share it.
	// nil: they are rejected. It is the caller's: Close does not close it.
	Overflow core.Limiter

	// OnEvict is told of each partition that was dropped, by the call that did it, once its
	// limiter is closed. No lock is held. A panic of it goes to that call, which keeps no
	// permits: what it has taken is undone first. nil: nobody is told.
	OnEvict func(K, core.Limiter)
}

const (
	defaultIdleTimeout   = 10 * time.Second
	defaultMaxPartitions = 1 << 20
)

func (o *Options[R, K]) validate() error {
	var errs []error
	fault := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("partition: Options.%s = %v, want %s", field, value, want))
	}
	if o.Key == nil {
		fault("Key", "nil", "a function")
	}
	if o.New == nil {
		fault("New", "nil", "a function")
	}
	if o.IdleTimeout < 0 {
		fault("IdleTimeout", o.IdleTimeout, "at least 0")
	}
	if o.MaxPartitions < 0 {
		fault("MaxPartitions", o.MaxPartitions, "at least 0")
	}
	if o.Overflow != nil && isNil(o.Overflow) {
		fault("Overflow", fmt.Sprintf("(%T)(nil)", o.Overflow), "a limiter, or nil itself")
	}
	return errors.Join(errs...)
}
