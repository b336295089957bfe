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
	// ErrClosed is returned by calls that submit to a closed pool, or that wait to submit
	// when the pool is closed. It matches [core.ErrClosed]. It is also the cause of the tasks'
	// context when Close cancels, and the error of tasks that Close cancels before they start.
	ErrClosed = closed.Error("worker", core.ErrClosed)

	// ErrGoexit is the error of a task that called runtime.Goexit, as t.FailNow does.
	ErrGoexit = errors.New("worker: task called runtime.Goexit")

	errNilTask = errors.New("worker: the task is nil")
)

// PanicError is the error of a task that panicked. It is also the error of a task whose
// limiter panicked on a worker's goroutine; the message then names the limiter.
type PanicError struct {
	Value any    // the value of the panic
	Stack []byte // the stack of the goroutine at the panic, as by debug.Stack

	culprit string // what panicked
}

// caught returns the error for a value just recovered.
func caught(value any, culprit string) *PanicError {
	return &PanicError{Value: value, Stack: debug.Stack(), culprit: culprit}
}

// Error returns what panicked and the value, without the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("worker: %s panicked: %v", cmp.Or(e.culprit, "task"), e.Value)
}

// Unwrap returns Value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
