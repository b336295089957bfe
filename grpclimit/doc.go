// Package grpclimit puts gRPC servers and clients under limits.
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
// A call that the limiter rejects is answered with the code ResourceExhausted, the reason, RetryInfo
// and the trailer grpc-retry-pushback-ms, which the retries of gRPC clients obey. With a
// [core.ConcurrencyLimiter] the lease is held until the handler has returned, or the stream has
// ended, also by a panic.
//
// A [partition.Keyed] is a Limiter with a core.Limiter for each key: its Key is [ByPeer],
// [ByMetadata], [ByIdentity], [ByMethod] or another function of the call.
//
// # Streams
//
// The Receive, ReceiveBytes, Send and SendBytes of a [Policy] limit the messages of streams. A stream
// that has to wait is not read, and then HTTP/2's flow control stops its sender: memory stays bounded.
//
// # Clients
//
// The interceptors of a [Client] wait for a permit before each call. With HonorRetryAfter they hold calls back
// for as long as the server's last rejection said.
//
// # Inside
//
// The policies, the decisions and the leases are internal/policy's, as in httplimit. A call is an
// admission, with one snapshot of the options; the interceptors take over the admission that Tap has
// begun. The messages of a stream are paid in RecvMsg and SendMsg, by internal/meter for
// bytes. The end of the call ends their waits, as a handler may return while another goroutine still
// receives.
package grpclimit
