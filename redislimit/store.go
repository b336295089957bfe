package redislimit

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
)

// Store runs scripts on a Redis or Valkey server. Packages goredis and rueidis make a Store from your
// client; write your own for another client. A Store is safe for concurrent use.
//
// All limiters on one Store share a circuit breaker. After three calls in a row have got no reply, the
// store counts as unreachable, and one call at a time probes whether it is back. If a store has a method
// Client() any, stores with equal clients share a breaker, too.
//
// A store of several nodes may have a method Node(key string) string, which names the node that has a
// key, or returns "" if the store does not know it yet. Each node then has a breaker of its own, so one
// that is silent does not affect limits on the others. Node is called often, with a lock held: it does
// not wait for the network, and uses no limiter.
//
// A store may have a method Ready() bool. If Ready returns true, a Run that starts now returns by its
// context's deadline, whatever the network does, for example because the latest Run got a reply. Then
// a caller may make the call on its own goroutine, which is faster.
//
// If a Store panics on a caller's goroutine, the panic reaches the caller, and the limiter continues
// to work. That is so if the store is ready and the caller's context cannot end. Otherwise a call has a
// goroutine of its own, and the panic ends the process.
type Store interface {
	// Run runs the script once and returns its reply, an array of integers. It sends EVALSHA,
	// and EVAL if the server replies NOSCRIPT, which it does after a restart, a failover or a SCRIPT
	// FLUSH. Once the bytes were sent, Run does not send a script again, whatever the client's options
	// say, because the lost reply may have been a grant. It does not keep keys and args.
	//
	// If the store is ready, ctx ends with the decision's Timeout. Otherwise Run has a goroutine of its
	// own, and ctx ends 10 s after the Timeout or at Close: a connection that takes longer than the
	// decision can still be made, for the next decision. Run returns soon after ctx has ended. It
	// returns an error earlier if it can, for example if the server refuses connections. If the server replies with an error, Run
	// returns [Refused] of it.
	Run(ctx context.Context, s *Script, keys []string, args ...int64) ([]int64, error)

	// Subscribe calls f for each message on the channel until stop is called or the subscription ends.
	// It returns when it is subscribed; ctx bounds only that. f does not block, and stop waits for a
	// running f. If the subscription ends before stop is called, for example because its connection was
	// closed or has timed out, the store calls [SubscriptionEnded] with ctx, or a context derived from
	// it; the limiter then calls stop and subscribes again. A store that cannot subscribe returns
	// [errors.ErrUnsupported]: waiters then poll once a second.
	Subscribe(ctx context.Context, channel string, f func()) (stop func(), err error)
}

type subscriptionEndedKey struct{}

// SubscriptionEnded notifies the limiter that a subscription of [Store].Subscribe has ended. ctx is the context of that call,
// or is derived from it. Only stores call SubscriptionEnded. It does not block.
func SubscriptionEnded(ctx context.Context) {
	if ended, ok := ctx.Value(subscriptionEndedKey{}).(context.CancelFunc); ok {
		ended()
	}
}

// ErrStore is matched by the error of a request that failed because the store did not reply within
// [Options].Timeout, or replied with an error, and [Options].Unavailable is [FailClosed]. The
// error contains the reason, and matches the client's error. It never matches [context.DeadlineExceeded],
// which stands for the caller's own deadline.
var ErrStore = errors.New("redislimit: the store is unreachable")

// ErrTimeout and ErrRefused tell the reasons of an [ErrStore] apart. ErrTimeout is matched by the error of a request if the store
// did not reply within [Options].Timeout. ErrRefused is matched if the server replied with an error, such as NOPERM or OOM,
// and the [Store] says so by [Refused].
var (
	ErrTimeout = errors.New("redislimit: the store did not reply in time")
	ErrRefused = errors.New("redislimit: the store refused")
)

// Refused returns the error of a [Store].Run to which the server has replied with err. It has the text of err, and matches
// err and [ErrRefused]. Only stores call Refused.
func Refused(err error) error { return refusedError{err} }

type refusedError struct{ error }

func (e refusedError) Unwrap() error        { return e.error }
func (e refusedError) Is(target error) bool { return target == ErrRefused }

// ErrLeaseLost is the cause of a [Context] whose lease was not renewed in time, so that others may hold its permits.
var ErrLeaseLost = errors.New("redislimit: the lease was lost")

// Script is a script of this package, for a [Store] to run.
type Script struct{ source, sha1 string }

func newScript(own string) *Script {
	sum := sha1.Sum([]byte(commonSource + own))
	return &Script{commonSource + own, hex.EncodeToString(sum[:])}
}

// Source returns the script's text, for EVAL.
func (s *Script) Source() string { return s.source }

// SHA1 returns the script's SHA-1 in hexadecimal, for EVALSHA.
func (s *Script) SHA1() string { return s.sha1 }

var (
	//go:embed lua/common.lua
	commonSource string
	//go:embed lua/bucket.lua
	bucketSource string
	//go:embed lua/window.lua
	windowSource string
	//go:embed lua/leases.lua
	leasesSource string

	bucketScript = newScript(bucketSource)
	windowScript = newScript(windowSource)
	leasesScript = newScript(leasesSource)
)
