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

// Policy returns s as a policy for executions with results of type R. The strategy is asked
// with the execution's context, so the execution's cancellation, a timeout outside and
// values for the strategy's limiter reach it. If it does not admit the execution, the result
// is its error, see [resilience.Strategy.Do]; an execution that was cancelled meanwhile has the
// result that it was cancelled with. The permit is given back when the inner policies are
// done, however they end. They wait for the function; but a hedge inside may leave attempts
// running that it gave up on. Outside, each of its attempts has a permit until it ends.
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
			if cancelled, with := x.IsCanceledWithResult(); cancelled {
				return with
			}
		}
		return &common.PolicyResult[R]{Error: err, Done: true}
	}
}

// RetryAfter is for the WithDelayFunc of a retry policy outside a strategy: it returns how
// long the limiter asked to wait, if the attempt was refused by one that knows; else -1,
// which lets the policy's own delay stand.
func RetryAfter[R any](exec failsafe.ExecutionAttempt[R]) time.Duration {
	var r *resilience.RejectedError
	if errors.As(exec.LastError(), &r) && r.RetryAfter > 0 {
		return r.RetryAfter
	}
	return -1
}
