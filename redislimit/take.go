package redislimit

import (
	"container/list"
	"time"
)

// take is a caller's request for permits. The store is asked for it by the next call; then it is decided or, if it is a refused
// Acquire, queued.
type take struct {
	permits  int
	waits    bool            // an Acquire: it may be queued
	leaves   <-chan struct{} // closed when its caller leaves; nil: it does not
	deadline time.Time       // of its caller; zero: none
	due      time.Time       // when its Timeout is over

	// The engine's mutex guards these; once it is decided, they do not change.
	stage stage
	place *list.Element // in the queue
	ready time.Time     // queued: when it should ask again; zero: not known
	flags int64         // of the latest call
	id    int64         // by which the latest call knows the lease of a concurrency limiter
	done  chan struct{} // closed when it is decided; nil: it was decided at once
	decision
}

// stage is how far a take has come.
type stage uint8

const (
	asking  stage = iota // in the next call, or in one under way
	queued               // in the queue, and maybe in a call under way
	decided              // its decision is known
	gone                 // its caller has left
)

// decision is what became of a take.
type decision struct {
	outcome outcome
	limits  *limits // that it was decided by
	answer  answer
	reason  string        // of a rejection
	detail  string        // more of that
	retry   time.Duration // of a rejection
	err     error         // of a rejection: its cause, if there is one; else why it was not decided by the limit
	lease   *lease        // of a concurrency limiter's grant
}

// outcome is how a take was decided.
type outcome uint8

const (
	granted outcome = iota + 1
	rejected
	refused     // for another reason than the limit
	unreachable // [StoreOptions].Unavailable decides
)

// hasLeft reports whether the caller has left, however late its goroutine notices.
func (t *take) hasLeft() bool {
	select {
	case <-t.leaves:
		return true
	default:
		return false
	}
}
