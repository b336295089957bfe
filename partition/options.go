package partition

import (
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/invalid"
)

// Options are the options of a [Keyed].
type Options[R any, K comparable] struct {
	// Name is the name of the Keyed in errors, and the limiter's name in a rejection when there
	// is no room for a key. It may be empty.
	Name string

	// Key returns the key of the partition that a request belongs to. Required. A key that does
	// not equal itself, such as NaN, is an error. Key must be safe for concurrent use.
	Key func(R) K

	// New creates the limiter for a key. Required, unless Update is set. It is called for the first request with a
	// key, and again if the key returns after its partition was dropped. Each call must return a new limiter with the
	// current limits. New may block: requests for other keys do not wait for it. New may use the Keyed for other keys.
	//
	// A dropped limiter is closed. So if several keys share a limiter, return a [core.Chain] of it, because a chain
	// does not close its limiters.
	//
	// If New fails, the request that called it and those that waited for it get the error, and the next request calls
	// New again. If New panics, the request that called it panics, and one of the requests that waited, or else the
	// next one, calls New again.
	New func(K) (core.Limiter, error)

	// Update returns the limiter for a key under the current limits, for [Keyed.Refresh]. now is the key's current
	// limiter. Update either changes its limits and returns it, or returns another limiter, which replaces it. If
	// there is no New, Update also creates the limiters; now is nil in these calls. The Apply methods of package spec
	// do all of this:
	//
	//	Update: func(tenant string, now core.Limiter) (core.Limiter, error) { return planOf(tenant).Apply(now, tenant) }
	//
	// A limiter that is replaced is closed, unless the new one is a chain or a wrapper that calls it. Update must not
	// call Refresh.
	Update func(key K, now core.Limiter) (core.Limiter, error)

	// Group returns the group of a key for which there is no room. It should return one of a small set of keys. All
	// keys of a group share a limiter, which New creates at the group's first request. [Keyed.Get] does not return
	// this limiter. Groups do not count in MaxPartitions. There are at most 65,536 groups, and requests that need
	// another one are rejected. Group must be safe for concurrent use. If it is nil, the requests of keys for which
	// there is no room are rejected with [ErrFull].
	Group func(K) K

	// IdleTimeout is how long a partition's limiter must have been idle before the partition is
	// dropped. 0 means 10 s. Below 0 is an error. When MaxPartitions is reached, room for a new key
	// is made earlier: any partition that is idle at that moment may be dropped.
	IdleTimeout time.Duration

	// MaxPartitions is the largest number of live partitions, including those being created.
	// 0 means 1<<20. Below 0 is an error.
	MaxPartitions int

	// OnEvict is called for each partition or group that was dropped, after its limiter is closed, by the call that
	// dropped it or by a later one. One call of OnEvict runs at a time, with no lock held. New may already have
	// created another limiter for the same key, so compare the limiters, not the keys. OnEvict may use the Keyed.
	//
	// OnEvict should return soon. While it runs, no partition is dropped for having been idle for IdleTimeout, and
	// the partitions that requests for new keys drop to make room are reported later. If too many are to be reported, at
	// least 1,024, such requests wait for OnEvict: [Keyed.Acquire] for a second at most, or until its ctx is done, and
	// [Keyed.TryAcquire] for 10 ms. Then they are rejected as if there were no room. If OnEvict makes a request for a
	// new key, that request may drop a partition to make room, and a later call
	// reports that partition to OnEvict. If OnEvict panics, the request or Sweep that called it panics, before it has
	// taken permits. It may be nil.
	OnEvict func(K, core.Limiter)
}

const (
	defaultIdleTimeout   = 10 * time.Second
	defaultMaxPartitions = 1 << 20
	maxGroups            = 1 << 16
)

func (o *Options[R, K]) validate() error {
	f := invalid.Fields{Prefix: "partition: Options."}
	if o.Key == nil {
		f.Add("Key", "nil", "a function")
	}
	if o.New == nil && o.Update == nil {
		f.Add("New", "nil", "a function")
	}
	if o.IdleTimeout < 0 {
		f.Add("IdleTimeout", o.IdleTimeout, "at least 0")
	}
	if o.MaxPartitions < 0 {
		f.Add("MaxPartitions", o.MaxPartitions, "at least 0")
	}
	return f.Err()
}
