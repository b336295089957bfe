package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Options are the options of a [Keyed].
type Options[R any, K comparable] struct {
	// Name is the name of the Keyed in errors, and the limiter's name in a rejection when there
	// is no room for a key. It may be empty.
	Name string

	// Key returns the key of the partition that a request belongs to. Required. A key that does
	// not equal itself, such as NaN, is an error. Key must be safe for concurrent use.
	Key func(R) K

	// New creates the limiter for a key. Required. It is called for the first request with a key, and again
	// if the key returns after its partition was dropped. Each call must return a new limiter with the
	// current limits. Because a
	// dropped limiter is closed, a limiter that several keys share must hide its Close: return
	// [core.Chain] of it, which closes nothing. New may block: requests for other keys do not
	// wait for it. New may use the Keyed for other keys. If New fails or panics, the request that
	// called it gets the error or panics, and the next request calls New again.
	New func(K) (core.Limiter, error)

	// IdleTimeout is how long a partition's limiter must have been idle before the partition is
	// dropped. 0 means 10 s. Below 0 is an error. When MaxPartitions is reached, room for a new key
	// is made earlier: any partition that is idle at that moment may be dropped.
	IdleTimeout time.Duration

	// MaxPartitions is the largest number of live partitions, including those being created.
	// 0 means 1<<20. Below 0 is an error.
	MaxPartitions int

	// Overflow decides the requests of keys for which there is no room; all such keys share it.
	// If it is nil, these requests are rejected. Close does not close it.
	Overflow core.Limiter

	// OnEvict is called for each partition that was dropped, by the call that dropped it, after
	// its limiter is closed. No lock is held. OnEvict may use the Keyed. Its own requests drop no other
	// partitions: if there is no room for a new key, they are decided by Overflow or rejected. If OnEvict
	// panics, the call that dropped the partition panics, before it has taken permits. It may be nil.
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
	if o.Overflow != nil && backdoor.IsNil(o.Overflow) {
		fault("Overflow", fmt.Sprintf("(%T)(nil)", o.Overflow), "a limiter, or nil itself")
	}
	return errors.Join(errs...)
}
