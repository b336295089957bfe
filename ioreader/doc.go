// Package ioreader throttles readers, writers, connections, listeners, dialers and copies with
// the limiters of package core. One permit is one byte.
//
//	limiter, err := core.NewTokenBucket(ioreader.PerSecond(8 << 20)) // 8 MiB/s
//	if err != nil {
//		return err
//	}
//	w := ioreader.NewWriter(ctx, file, limiter)
//	_, err = io.Copy(w, source)
//	return err
//
// [NewWriter] and [NewReader] wrap any stream, [NewConn] wraps a connection, and [NewListener] and
// [NewDialer] wrap all connections of a server or a client. [Copy] copies and reports progress.
// In this documentation "the underlying writer" (reader, connection) is the one that is wrapped.
//
// # Which limiter
//
// A token bucket bounds the rate in bytes; [PerSecond] returns options that suit a bandwidth. A
// concurrency limiter bounds how many bytes are being written at a time, that is, are inside a Write
// of an underlying writer. A [core.Chain] of the two does both. Any number of streams may share a
// limiter. A nil limiter means no limit.
//
// Calls wait for their permits, whatever the QueueLimit of the limiter is.
//
// # How a call ends
//
// A call that waits for permits ends immediately when its context is done, when the deadline of its connection
// passes, when its stream is closed, and when a custom limiter rejects it. The error is ctx.Err(),
// [os.ErrDeadlineExceeded], [io.ErrClosedPipe] (of a connection also [net.ErrClosed]) or the limiter's, in
// each case unchanged. A call that is inside the underlying stream ends when that returns. A Write that ends
// early returns how many bytes it has written, and a Read that ends early loses no bytes. A stream can be used
// again after a rejection, and a connection after its deadline has been moved.
//
// A rate limiter rejects a request immediately if its permits would become available after the
// context's deadline. The call then ends before the deadline, with a *[core.RejectedError] that also
// matches [context.DeadlineExceeded]. The limiter does not know the deadline of a connection.
//
// # What a stream holds
//
// A Write takes the permits for a slice before it writes the slice, and returns the permits for
// bytes that the underlying writer did not take. A Read requests permits after the bytes have
// arrived, so a stream that is idle, or waits for its peer, holds no permits. If a Read has to end
// before it gets them, the next Read returns the bytes.
//
// A stream holds no permits while it waits for another stream with the same limiter. A copy from
// a Reader to a Writer with the same limiter therefore does not deadlock. A Writer or connection that
// writes to another stream of this package, or to a pipe, leaves the limiters that both ask to the one
// underneath, except for rate limiters. It finds them through chains, wrappers such as that of [core.WithReason], and
// limiters per key, and through a *tls.Conn. If a limiter cannot be separated from the one underneath, the first Write fails with an
// error that names both.
//
// A Reader, connection or Copy that reads from a pipe does not take permits of the pipe's WriteLimiter, because the bytes
// in the pipe hold them. It finds that limiter in the same way, and fails on the first call if it cannot be separated.
//
// If something else is between two streams, such as a [bufio.Writer], or if a custom limiter hides
// the one that it uses, the streams cannot know that they share it, and may wait for themselves.
// Such a wait ends with the context, the deadline or the Close of the stream underneath: give both
// streams the same context. A Write to a pipe also ends with the context of the stream above it.
//
// # Slices
//
// A large call is split into slices, so that its bytes are spread over time and streams that
// share a limiter do not wait long for each other. A slice is the number of bytes that the
// limiter's rate allows in 2 ms, or an eighth of the permits that are available if that is more. The
// rate is the one that the limiter's leases report ([core.Window] or [core.ResetAfter]). If they
// report none, a slice is an eighth of the limit. If the limit is unknown too, the size of the
// slices adapts to how long the limiter makes the stream wait. The bounds are:
//
//   - A slice is at most 64 KiB, and at most an eighth of the limit.
//   - But under a rate limiter it is at least 1,460 bytes, the payload of a packet, or the limit if
//     that is less.
//   - If a limiter may hold permits, because it is a concurrency limiter or of another package, a
//     slice is never more than an eighth of its limit.
//
// A changed limit applies from the next slice on. A call for more bytes than the limit never
// fails with [core.ErrPermitsExceedLimit].
//
// # Fairness
//
// Streams that share a token bucket of [PerSecond], or another one with a period of a millisecond
// or less, get equal parts of its rate, whatever the sizes of their calls. A window, and a bucket
// with a longer period, makes many permits available together. Streams take those as fast as they
// can, so a stream with small calls gets far fewer. If the parts of a window have to be equal, use
// a [core.Chain] of a bucket with the same rate and the window, in this order.
//
// The limiter serves waiting streams one after the other, so a stream whose calls are
// smaller than a slice would get fewer bytes at each turn. Therefore, if such a call has waited
// while other streams were waiting, its turn stays open for 5 ms: later calls of its stream pass immediately, up
// to a slice. The limiter owes their permits, so the streams that wait get theirs later, and the
// rate is not exceeded by more than one slice at any time.
//
// This applies to the rate limiters of package core, and to chains and wrappers of nothing else. A [core.Switch] and a
// limiter per key count as what they ask at the time: streams look at each turn, so after a Set to a concurrency limiter
// no byte passes on the credit of the former limiter. If a concurrency limiter or a custom limiter is called, no byte
// passes before its permits are available, and streams with larger calls get more.
package ioreader

// Inside: internal/limit/meter pays for this package and for pipe, slice by slice, and settles what did not pass.
// Streams get equal parts because the turn of a small call that waited while others were waiting stays open
// for 5 ms: later calls settle its lease to more permits. An idle stream holds nothing.
