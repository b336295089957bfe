package redislimit

import (
	"container/list"
	"time"
)

// request is a caller's request for permits. It travels in the next call of the store. Then it is decided or, if it is an
// Acquire that the store refused, queued.
type request struct {
	permits  int
	waits    bool      // it is an Acquire, which may be queued
	deadline time.Time // the caller's; zero if there is none
	expires  time.Time // when its Timeout ends

	// The engine's mutex guards these fields. Once the request is decided, they do not change.
	stage   stage
	place   *list.Element // in the queue
	retryAt time.Time     // when a queued request should ask again; zero if that is not known
	flags   int64         // in the latest call
	id      int64         // of the lease that the latest call asks for; 0 if there is none

	// Once it is decided:
	limits *limits // that decided it
	result result
	err    error  // of a failed request; a rejected one has a *core.RejectedError
	lease  *lease // of a concurrency limiter's grant
	grant  grant  // of a rate limiter's; it belongs to the caller's lease

	done chan struct{} // closed when the request is decided; nil if it was decided immediately
}

// stage is the progress of a request.
type stage uint8

const (
	asking    stage = iota // waiting for the next call, or in one that is in flight
	queued                 // in the queue, and possibly in a call that is in flight
	abandoned              // the caller has given up

	// The request is decided.
	granted
	rejected
	failed      // for another reason than the limit
	unreachable // [Options].Unavailable decides
)

func (s stage) decided() bool { return s >= granted }
