package failsafe

import (
	"context"
	"errors"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/common"
	"github.com/failsafe-go/failsafe-go/policy"

	"github.com/sluice-go/sluice/resilience"
)

// Policy returns s, which must not be nil, as a policy for executions with results of type R.
// The strategy gets the execution's context, with its cancellation, the timeouts outside and
// the values for the strategy's limiter. If it does not run the execution, the result is its
// error, see [resilience.Strategy.Do]; an execution that was canceled in the meantime has the result
// that it was canceled with.
//
// The permit is released when the inner policies are done, however they end. They wait for the
// function, except that a hedge inside may leave attempts running that it gave up on. With a
// hedge outside, each attempt holds a permit until it ends.
//
// The strategy stays the caller's: it may be used in other executors, and without any.
func Policy[R any](s *resilience.Strategy) failsafe.Policy[R] { return strategy[R]{s} }

type strategy[R any] struct{ *resilience.Strategy }

// ToExecutor implements [failsafe.Policy].
func (s strategy[R]) ToExecutor(_ R) any {
	e := &executor[R]{strategy: s}
	e.Executor = e
	return e
}

type executor[R any] struct {
	policy.BaseExecutor[R]
	strategy[R]
}

var _ policy.Executor[any] = (*executor[any])(nil)

// Apply implements [policy.Executor].
func (e *executor[R]) Apply(inner func(failsafe.Execution[R]) *common.PolicyResult[R]) func(failsafe.Execution[R]) *common.PolicyResult[R] {
	return func(exec failsafe.Execution[R]) *common.PolicyResult[R] {
		var result *common.PolicyResult[R]
		err := e.Do(exec.Context(), func(context.Context) error {
			result = inner(exec)
			return result.Error // for the strategy's Settle
		})
		if result != nil {
			return result
		}
		if x, ok := exec.(policy.ExecutionInternal[R]); ok {
			if canceled, with := x.IsCanceledWithResult(); canceled {
				return with
			}
		}
		return &common.PolicyResult[R]{Error: err, Done: true}
	}
}

// RetryAfter is for the WithDelayFunc of a retry policy outside a strategy. It returns how long
// the limiter asked to wait; or -1, which keeps the policy's own delay, if the attempt
// was not rejected or the limiter did not say.
func RetryAfter[R any](exec failsafe.ExecutionAttempt[R]) time.Duration {
	var r *resilience.RejectedError
	if errors.As(exec.LastError(), &r) && r.RetryAfter > 0 {
		return r.RetryAfter
	}
	return -1
}
