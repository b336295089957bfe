package rlslimit

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// details are the counts of a rule by names with values, as detailed_metric and value_to_metric want them. Clients choose the values,
// so a name that has not been used for a while is dropped, and its counts are added to those of the rule.
type details = partition.Keyed[string, string]

// forgetAfter is how long a name is kept without being used.
const forgetAfter = time.Hour

// want gets the tally ready for names, if the rule wants counts by them. It keeps at most so many.
func (t *tally) want(rc *ruleConfig, most int) {
	if !rc.wantsDetails() || t.details.Load() != nil {
		return
	}
	t.details.Store(core.Must(partition.New(partition.Options[string, string]{
		Key:           func(name string) string { return name },
		New:           func(string) (core.Limiter, error) { return new(detail), nil },
		IdleTimeout:   forgetAfter,
		MaxPartitions: most,
		OnEvict:       func(_ string, l core.Limiter) { t.counts.add(&l.(*detail).counts) },
	})))
}

// detail is the counts of a name. It is a limiter without a limit.
type detail struct {
	counts

	used atomic.Int64 // when it was, in nanoseconds
}

func (d *detail) TryAcquire(int) core.Lease {
	d.used.Store(time.Now().UnixNano())
	return core.Grant(0, nil)
}

func (d *detail) Acquire(_ context.Context, permits int) (core.Lease, error) {
	return d.TryAcquire(permits), nil
}

func (d *detail) Available() int { return math.MaxInt }

// IdleFor returns for how long the name has not been used. Until it may be forgotten it is not idle, so that it is not dropped to
// make room for another.
func (d *detail) IdleFor() (time.Duration, bool) {
	idle := time.Duration(time.Now().UnixNano() - d.used.Load())
	return idle, idle >= forgetAfter
}
