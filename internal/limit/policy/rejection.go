package policy

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/partition"
)

// Rejection is a policy's decision that a request may not proceed.
type Rejection[R, O any] struct {
	Policy     *Policy[R, O]
	Decisions  []Decision[R, O] // up to this one; their permits have been refunded
	Lease      core.Lease       // lease from the limiter; not acquired
	Result     Result
	Err        error
	RetryAfter time.Duration // 0 if unknown or never
}

// Rejection returns the rejection of a request by p, whose limiter returned the lease and err.
func (p *Policy[R, O]) Rejection(result Result, lease core.Lease, err error) *Rejection[R, O] {
	rejection := &Rejection[R, O]{Policy: p, Lease: lease, Result: result, Err: err}
	if result != Failed {
		rejection.RetryAfter = RetryAfter(lease, err)
	}
	return rejection
}

// Rejected reports whether err is a rejection by a limiter, as opposed to its failure.
func Rejected(err error) bool {
	return errors.Is(err, core.ErrRejected) || errors.Is(err, core.ErrPermitsExceedLimit)
}

// RetryAfter returns the time until the same request could be served, from the lease or the error of a rejection; 0
// if that is unknown or never.
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

// Reason returns the reason phrase of a rejection for its client, or false if there is none. The phrases of this
// library's own limiters are for the server's operators, so there is none for them.
func Reason(lease core.Lease) (string, bool) {
	phrase, _ := core.ReasonPhrase.From(lease)
	switch phrase {
	case "", core.ReasonExhausted, core.ReasonQueueLimit, core.ReasonEvicted, core.ReasonDeadlineTooSoon, "blocked", "paused",
		hold.ReasonCapacity, hold.ReasonBusy:
		return "", false
	}
	// A Limiter of the user's may have replaced the phrase of a full partition.
	var rejected *core.RejectedError
	if err := lease.Err(); errors.Is(err, partition.ErrFull) && errors.As(err, &rejected) && rejected.Reason == phrase {
		return "", false
	}
	return phrase, true
}
