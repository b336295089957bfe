package worker

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/sluice-go/sluice/internal/limit/hold"
)

// ReasonBusy is the reason of a *[core.RejectedError] if the pool has no queue, and the task would have to wait for a
// worker or for tasks that are ahead of it.
const ReasonBusy = hold.ReasonBusy

var (
	// ErrClosed is returned by calls that submit to a closed pool, and by calls that are waiting to submit when the
	// pool is closed. It matches [core.ErrClosed]. If Close cancels tasks because its ctx is done, ErrClosed is the
	// cause of the tasks' contexts and the error of the queued tasks.
	ErrClosed = hold.ErrClosed("worker")

	// ErrGoexit is the error of a task that called runtime.Goexit, for example by t.FailNow.
	ErrGoexit = errors.New("worker: task called runtime.Goexit")

	errNilTask = errors.New("worker: the task is nil")
)

// PanicError is the error of a task that panicked. Pool.Wait also returns one for a panic of
// Options.OnPanic; its message says so.
type PanicError struct {
	Value any    // the value of the panic
	Stack []byte // the stack of the panicking goroutine, as returned by debug.Stack

	culprit string // "task" or "OnPanic"
}

// caught returns the error for a recovered value.
func caught(value any, culprit string) *PanicError {
	return &PanicError{Value: value, Stack: debug.Stack(), culprit: culprit}
}

// Error returns a message that says what panicked, with the value and without the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("worker: %s panicked: %v", cmp.Or(e.culprit, "task"), e.Value)
}

// Unwrap returns Value if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
