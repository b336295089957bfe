package cookbook

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// A Pacer starts calls at the rate of a limiter. No goroutine waits for a call: a timer starts it.
type Pacer struct {
	limiter *core.TokenBucket
}

// NewPacer returns a Pacer that starts a call every interval. At most queue calls may be scheduled
// ahead.
func NewPacer(interval time.Duration, queue int) (*Pacer, error) {
	o := core.Every(interval, 1)
	o.QueueLimit = queue
	limiter, err := core.NewTokenBucket(o)
	return &Pacer{limiter}, err
}

// After starts f when it is its turn, on a goroutine of its own, and returns the time until then. If
// cancel is called before f has started, f does not run, and calls scheduled from now on start
// sooner. If too many calls are scheduled, After returns a *core.RejectedError with the time to retry.
func (p *Pacer) After(f func()) (delay time.Duration, cancel func(), err error) {
	lease := p.limiter.Reserve(1) // does not wait
	if err := lease.Err(); err != nil {
		return 0, nil, err
	}
	delay, _ = core.Delay.From(lease)
	timer := time.AfterFunc(delay, f)
	return delay, func() {
		if timer.Stop() {
			lease.Refund() // gives up the place in the queue
		}
	}, nil
}
