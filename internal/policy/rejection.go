package policy

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Rejection is a policy's decision that a request may not proceed.
type Rejection[R any] struct {
	Policy     *Policy[R]
	Decisions  []Decision[R] // up to this one; their permits have been given back
	Lease      core.Lease    // the limiter's answer: not acquired
	Result     Result
	Err        error
	RetryAfter time.Duration // 0: unknown, or never
}

// Rejection returns the rejection of a request by p, whose limiter has answered with the lease and err.
func (p *Policy[R]) Rejection(result Result, lease core.Lease, err error) *Rejection[R] {
	rejection := &Rejection[R]{Policy: p, Lease: lease, Result: result, Err: err}
	if result != Failed {
		rejection.RetryAfter = RetryAfter(lease, err)
	}
	return rejection
}

// Rejected reports whether err is a limiter's rejection, and not its failure.
func Rejected(err error) bool {
	return errors.Is(err, core.ErrRejected) || errors.Is(err, core.ErrPermitsExceedLimit)
}

// RetryAfter returns the time until the same request could be served, as the lease or the error of
// a rejection says; 0: unknown, or never.
func RetryAfter(lease core.Lease, err error) time.Duration {
	if errors.Is(err, core.ErrPermitsExceedLimit) {
		return 0
	}
	retry, _ := core.RetryAfter.From(lease)
	var rejected *core.RejectedError
	if retry <= 0 && errors.As(err, &rejected) {
		retry = rejected.RetryAfter
	}
	return max(retry, 0)
}

// Reason returns the reason phrase of a rejection for its client; false if there is none, or one of
// this library's packages' own, which are for the server's operators.
func Reason(lease core.Lease) (string, bool) {
	phrase, _ := core.ReasonPhrase.From(lease)
	switch phrase {
	case "", core.ReasonExhausted, core.ReasonQueueLimit, core.ReasonEvicted, core.ReasonDeadlineTooSoon,
		"partition limit reached", "capacity reached", "all workers busy": // partition, channel, worker
		return "", false
	}
	return phrase, true
}
