package worker

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/closed"
)

var (
	// ErrClosed is returned by a pool after its Close, and to those who waited to submit
	// then. It matches [core.ErrClosed]. It is also the cause of the tasks' context when
	// Close cancels them, and the error of those that it cancels before they start.
	ErrClosed = closed.Error("worker", core.ErrClosed)

	// ErrGoexit is the error of a task that ended its goroutine with runtime.Goexit, as
	// t.FailNow does.
	ErrGoexit = errors.New("worker: task called runtime.Goexit")

	errNilTask = errors.New("worker: the task is nil")
)

// PanicError is the error of a task that panicked, or whose limiter did on a worker's
// goroutine: then the message says so.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // the stack of its goroutine then, as debug.Stack has it

	culprit string // "": the task
}

// caught returns the error for a value just recovered.
func caught(value any, culprit string) *PanicError {
	return &PanicError{Value: value, Stack: debug.Stack(), culprit: culprit}
}

// Error says what panicked, and with what; the stack is not in it.
func (e *PanicError) Error() string {
	return fmt.Sprintf("worker: %s panicked: %v", cmp.Or(e.culprit, "task"), e.Value)
}

// Unwrap returns the value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
