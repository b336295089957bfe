package redislimit

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"sync"
)

// Store runs scripts on a Redis or Valkey server. Packages goredis and rueidis make one of
// the client that you have; write your own for another. It is safe for concurrent use.
//
// A Store that panics does so on the goroutine of a limiter's caller if it is ready (see below) and the caller has no
// context that can end: then the panic reaches the caller, and the limiter continues to work. Otherwise
// it ends the process, as every panic on a goroutine of its own does.
//
// All limiters with one Store share a circuit breaker: after three calls in a row have failed, the store is
// unreachable, and one call at a time finds out whether it is back. A store may have a method Client() any:
// stores with equal clients then share one too.
//
// A store may have a method Ready() bool. It reports that a Run that begins now returns by its
// context's deadline, whatever the network does, for example because the latest Run was answered. A
// caller alone then needs no goroutine for its call, which is quicker.
type Store interface {
	// Run runs the script once and returns its reply, an array of integers. It sends EVALSHA,
	// and EVAL if the server answers NOSCRIPT, as it does after a restart, a failover or a
	// SCRIPT FLUSH. It never sends a script again after the bytes were sent, whatever the
	// client's options say: a lost answer may have been a grant. It does not keep keys and args.
	//
	// A decision does not wait for Run longer than its Timeout: Run has a goroutine of its own. Its ctx
	// ends 10 s after that, or at Close if that is earlier, so that a connection that takes long is
	// made all the same, for the next decision. If the store is ready, ctx ends with the Timeout. Run
	// returns soon after ctx has ended; it may return earlier, with an error, for example if the
	// server refuses connections.
	Run(ctx context.Context, s *Script, keys []string, args ...int64) ([]int64, error)

	// Subscribe calls f for each message on the channel, from when it returns until stop is called
	// or the subscription ends; stop waits for a running f. ctx bounds only the call. f does not
	// block. If the subscription ends before stop is called, for example because its connection was
	// closed or has timed out, the store calls [SubscriptionEnded] with ctx, or a context derived
	// from it; the limiter then calls stop and subscribes again. A store that cannot subscribe
	// returns [errors.ErrUnsupported]: waiters then ask once a second.
	Subscribe(ctx context.Context, channel string, f func()) (stop func(), err error)
}

type subscriptionEndedKey struct{}

// SubscriptionEnded tells the limiter that a subscription of [Store].Subscribe has ended; ctx is the
// context of that call, or is derived from it. Only stores call it. It does not block.
func SubscriptionEnded(ctx context.Context) {
	if ended, ok := ctx.Value(subscriptionEndedKey{}).(func()); ok {
		ended()
	}
}

// ErrStore is matched by the error of a request that failed because the store did not answer within
// [StoreOptions].Timeout, or answered with an error, and [StoreOptions].Unavailable is [FailClosed]. The error says
// why, and matches the client's error too. It never matches [context.DeadlineExceeded], which
// is for the caller's own deadline.
var ErrStore = errors.New("redislimit: the store is unreachable")

// ErrLeaseLost is the cause with which a [Context] ends if its lease was not renewed in time,
// so that others may hold its permits.
var ErrLeaseLost = errors.New("redislimit: the lease was lost")

// Script is a script of this package, for a [Store] to run.
type Script struct{ source, sha1 func() string }

func newScript(own *string) *Script {
	source := sync.OnceValue(func() string { return commonSource + *own })
	return &Script{source, sync.OnceValue(func() string {
		sum := sha1.Sum([]byte(source()))
		return hex.EncodeToString(sum[:])
	})}
}

// Source returns the script's text, for EVAL.
func (s *Script) Source() string { return s.source() }

// SHA1 returns the name that the server knows the script by, in hexadecimal, for EVALSHA.
func (s *Script) SHA1() string { return s.sha1() }

var (
	//go:embed lua/common.lua
	commonSource string
	//go:embed lua/bucket.lua
	bucketSource string
	//go:embed lua/window.lua
	windowSource string
	//go:embed lua/leases.lua
	leasesSource string

	bucketScript = newScript(&bucketSource)
	windowScript = newScript(&windowSource)
	leasesScript = newScript(&leasesSource)
)
