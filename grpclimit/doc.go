// Package grpclimit limits gRPC servers and clients.
//
//	bucket, err := core.NewTokenBucket(core.PerSecond(100, 20))
//	...
//	limits, err := grpclimit.New(grpclimit.Options{
//		Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(bucket)}},
//		Skip:     grpclimit.HealthAndReflection,
//	})
//	...
//	server := grpc.NewServer(limits.ServerOptions()...)
//
// A call that the limiter rejects gets the code ResourceExhausted, the reason, RetryInfo and the trailer
// grpc-retry-pushback-ms, which gRPC clients follow when they retry. With a [core.ConcurrencyLimiter]
// the lease is held until the handler has returned or panicked, or the stream has ended.
//
// A [partition.Keyed] is a Limiter with a core.Limiter per key. Its Key is [ByPeer], [ByMetadata],
// [ByIdentity], [ByMethod] or another function of the call.
//
// # Streams
//
// Receive, ReceiveBytes, Send and SendBytes of a [Policy] limit the messages of streams. While a stream
// waits for permits, it is not read, so HTTP/2's flow control stops its sender and memory stays bounded.
//
// # Clients
//
// The interceptors of a [Client] wait for a permit before each call. With HonorRetryAfter they delay
// calls for as long as the server's last rejection asked.
package grpclimit

// Inside: the policies, decisions and leases are internal/limit/policy's, as in httplimit. A call is an admission with
// one snapshot of the options; the interceptors take over the admission that Tap has created. RecvMsg
// and SendMsg take the permits of a stream's messages, with internal/limit/meter for bytes. The end of the
// call ends their waits, because a handler may return while another goroutine still receives.
