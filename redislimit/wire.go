package redislimit

import (
	"errors"
	"time"
)

// code is an operation of the scripts. lua/common.lua has the same numbers, and the heads of the scripts describe what each
// operation does.
type code int64

const (
	codeRead code = iota
	codeTake
	codeGive
	codeCharge
	codePrefetch
	codeRenew
	codeRelease
	codeReset
	codeReturn
	codeCancel
)

// Flags of codeTake.
const (
	flagBlocks = 1 << iota // if it is refused, all that follow are refused, too
	flagWaited             // the request of a bucket has waited until now; that of a concurrency limiter is going to wait
	flagLater              // permits that are not there are taken all the same: the request gets a ticket
)

// stamp is the state of a rate limiter right after a grant, for the script; lua/README.md explains it.
type stamp struct {
	at      int64 // a bucket's latest tick, or the time at which a window's permits are returned
	missing int64 // tokens of a bucket
	version int64
}

// result is a script's result of one operation or request.
type result struct {
	done  int64 // 1, or how many permits; 0 if it was refused
	left  int   // permits available after it
	reset int64 // microseconds until all permits are back
	retry int64 // microseconds until a refused request could be granted; 0 if that is not known
	stamp stamp // stamp of a rate limiter's grant
	token int64 // token of a concurrency lease
	wait  int64 // microseconds until it is due, if it is a ticket; 0: it is a grant
	moved bool  // moved of a bucket's ticket: tokens or tickets were returned, so that others may be due sooner, too

	window int64 // length of a calendar window in microseconds; 0 means the current one
}

// reply is a script's reply to a call.
type reply struct {
	conflict kind     // the kind of limit that the key holds instead; 0 if it holds the right one
	now      int64    // the server's instant
	ends     int64    // microseconds until the window's segment ends; tokens of a bucket that are missing without those of tickets
	back     int64    // the time at which permits that are taken from a window now are returned
	version  int64    // version of a window
	window   int64    // length of a calendar window in microseconds
	forecast forecast // when permits are returned

	results []int64 // resultLen numbers for each operation, each group of requests, and the prefetched permits
	last    result  // the state after the call; of a call that prefetches, what it prefetched
}

// errReply is a failure of the store: its reply is not one that the script can make.
var errReply = errors.New("unexpected reply from script")

const (
	resultLen = 4 // numbers for each operation
	headLen   = 3 // numbers before them
	windowLen = 6 // the same for windows, without the two numbers for each time at which permits are returned

	// maxNumber is the largest number that a script takes or returns, because Lua's numbers are floats.
	maxNumber = 1<<53 - 1
)

// limiterArgs appends the script's arguments before the operations. at is approximately the server's time.
func (l *limits) limiterArgs(args []int64, holder int64, at time.Time) []int64 {
	switch l.kind {
	case kindBucket:
		return append(args, int64(l.limit), l.step, l.span)
	case kindConcurrency:
		return append(args, int64(l.limit), l.span, holder)
	}
	all := int64(0)
	if l.queueLimit > 0 {
		all = 1
	}
	if l.ofCalendar() {
		return l.around(append(args, 3, int64(l.limit), 0, windows, l.origin, all), at)
	}
	return append(args, int64(l.kind-kindFixed+1), int64(l.limit), l.span, l.step, l.origin, all)
}

// decodeHead reads the numbers before the results, and returns the results; nil if there are none.
func (r *reply) decodeHead(l *limits, reply []int64) (rest []int64) {
	head := headLen
	if l.window() && len(reply) >= windowLen {
		head = windowLen + 2*int(min(reply[windowLen-1], int64(len(reply))))
	}
	if len(reply) < head {
		return nil
	}
	r.now, r.ends = reply[1], reply[2]
	r.forecast = forecast{limits: l, at: r.now, known: true}
	if l.window() {
		if head < windowLen {
			return nil
		}
		r.back, r.version = reply[3], reply[4]
		for i := windowLen; i < head; i += 2 {
			r.forecast.returns = append(r.forecast.returns, comeback{reply[i], reply[i+1]})
		}
	}
	if l.ofCalendar() {
		r.window = l.lengthOf(r.now + r.ends)
	}
	return reply[head:]
}

// numbers returns the results' numbers of a step: an operation, a group of requests, or the prefetch.
func (r *reply) numbers(step int) [resultLen]int64 {
	return [resultLen]int64(r.results[step*resultLen:])
}

// result returns the result that has the four numbers: how much was done, the permits that are taken or missing after it, and
// two that depend on the kind. The forecast then starts after it.
func (r *reply) result(n [resultLen]int64) result {
	f := &r.forecast
	l := f.limits
	f.taken = n[1]
	f.known = !l.window() || f.taken == 0 || len(f.returns) > 0
	result := result{done: n[0], window: r.window}
	switch l.kind {
	case kindBucket:
		f.age = n[2]
		f.own = ownAccount{min(r.ends, f.taken), f.age}
		result.reset = f.bucket().FullAt(&l.bucket, 0)
		result.stamp = stamp{at: r.now - f.age, missing: f.taken, version: n[3]}
	case kindFixed, kindSliding:
		result.reset, result.retry = n[2], n[3]
		result.stamp = stamp{at: r.back, version: r.version}
	case kindConcurrency:
		result.retry, result.token = n[2], n[3]
	}
	result.left = f.available(0)
	return result
}

// retry returns when a request with that result could be granted, in microseconds; 0 if that is not known.
func (r *reply) retry(permits int, got result) int64 {
	switch permits = max(permits, 1); {
	case got.done == 1 || permits <= got.left:
		return 0
	case r.forecast.limits.kind == kindBucket:
		return r.forecast.availableIn(0, permits)
	}
	return got.retry
}

// later completes the result of a request for permits that was granted with flagLater: now, or with a ticket. n are the numbers of the
// result, the first of which was done.
func (r *reply) later(permits int, done int64, n [resultLen]int64, got *result) {
	l := r.forecast.limits
	if l.window() {
		if got.wait = n[3]; got.wait > 0 {
			got.stamp.at = r.now + done
			if l.ofCalendar() {
				got.window = l.lengthOf(got.stamp.at)
			}
		}
		got.retry = 0
		return
	}
	got.wait, got.moved = (done-1)/2, (done-1)%2 == 1
	if got.moved { // only its own permits are certain to be missing then
		got.stamp = stamp{at: r.now + got.wait, missing: int64(permits), version: got.stamp.version}
	}
}
