package worker

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
)

var (
	// ErrClosed is returned by a pool after its Close, and to those who waited to submit
	// then. It matches [core.ErrClosed]. It is also the cause of the tasks' context when
	// Close cancels them, and the error of those that it cancels before they start.
	ErrClosed error = closedError{}

	// ErrGoexit is the error of a task that ended its goroutine with runtime.Goexit, as
	// t.FailNow does.
	ErrGoexit = errors.New("worker: task called runtime.Goexit")

	errNilTask = errors.New("worker: the task is nil")
)

type closedError struct{}

func (closedError) Error() string { return "worker: pool is closed" }

func (closedError) Is(target error) bool { return target == core.ErrClosed }

// PanicError is the error of a task that panicked.
type PanicError struct {
	Value any    // what the task panicked with
	Stack []byte // the stack of its goroutine then, as debug.Stack has it
}

// Error says what the task panicked with; the stack is not in it.
func (e *PanicError) Error() string { return fmt.Sprintf("worker: task panicked: %v", e.Value) }

// Unwrap returns the value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
