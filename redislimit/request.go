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
	decision

	// The request is decided once both are closed. All requests of a call share called, which wakes their callers together. A
	// request that the call leaves undecided has own, which is set before called is closed.
	called chan struct{} // nil if the request was decided without a call
	own    chan struct{} // nil if the request needs none
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
	unreachable // [StoreOptions].Unavailable decides
)

func (s stage) decided() bool { return s >= granted }

// decision is how a request was decided.
type decision struct {
	limits *limits // that decided it
	result result
	err    error  // of a failed request; a rejected one has a *core.RejectedError
	lease  *lease // of a concurrency limiter's grant
}

// ownLocked makes the request's own channel, before the shared one is closed.
func (req *request) ownLocked() {
	if req.own == nil {
		req.own = make(chan struct{})
	}
}

// wait returns true when the request is decided, or false if canceled is closed first.
func (req *request) wait(canceled <-chan struct{}) bool {
	return closes(req.called, canceled) && closes(req.own, canceled)
}

// closes returns true when ch is closed, or false if canceled is closed first. A nil ch counts as closed.
func closes(ch, canceled <-chan struct{}) bool {
	if ch == nil {
		return true
	}
	select {
	case <-ch:
		return true
	case <-canceled:
		return false
	}
}
