// Package pipe provides in-memory byte pipes with a buffer and limiters: [New] is like io.Pipe,
// and [Conns] is like net.Pipe. One permit is one byte.
//
//	r, w, err := pipe.New(pipe.Options{})
//	if err != nil {
//		return err
//	}
//	go func() {
//		_, err := io.Copy(w, source)
//		w.CloseWithError(err) // nil: the reader gets io.EOF
//	}()
//	defer r.Close()
//	_, err = io.Copy(destination, r)
//	return err
//
// # Which side to limit
//
// [Options] has a limiter for each side and the size of the buffer. Several pipes may share a limiter.
//
//   - To bound the memory of one pipe, set Buffer.
//   - To bound the memory of several pipes together, give all of them one concurrency limiter as
//     WriteLimiter. The bytes that have been written and not yet read hold its permits.
//   - To bound both, give each pipe a [core.Chain] of a concurrency limiter of its own and the shared one.
//   - To bound the rate, use a token bucket as ReadLimiter or WriteLimiter. As ReadLimiter it delays
//     only the reader: the writer continues until the buffer is full, so it can prepare
//     the next bytes while the reader waits for the rate. As WriteLimiter it delays the writer: the buffer
//     is nearly empty, and the writer and the rate take turns.
//   - To bound memory and rate, use a concurrency limiter or Buffer for the one and a token bucket
//     as ReadLimiter for the other, or a [core.Chain] of both limiters as WriteLimiter.
//
// Reads and Writes wait for their permits, whatever the QueueLimit of the limiter is.
//
// # The buffer
//
// Write returns when its bytes are in the buffer or have been read. The buffer has 64 KiB unless Options says
// otherwise. If WriteLimiter contains a concurrency limiter, the size of the buffer is that limiter's limit instead,
// even after the limit is raised or lowered. If WriteLimiter is a [core.Switch] or a limiter per key, this is decided
// anew at each Write, by the limiter that is current then. A custom limiter, or one of redislimit, may also hold
// permits for the buffered bytes, so its limit is added to the size unless Buffer is set. The memory grows as the
// buffer fills.
//
// The bytes of a Write hold one lease if the limiter is not from package core, or if it is a concurrency limiter
// inside a chain, a Switch, or a wrapper such as the limiter of [core.WithReason]. The lease of a chain of two takes
// more than 400 bytes of memory until the Write's bytes have been read, so the memory of many small Writes is far more
// than the limit of such a chain. Write through a bufio.Writer, or use a concurrency limiter alone, which takes no
// memory for a Write.
//
// A Write that waits for room continues when the rest of its bytes fit, or when half of the
// buffer is free. A Write of 16 KiB or more that waits for the reader may be read directly from the slice
// passed to Write, and a Write copies its bytes directly into the slice of a Read that waits. Such bytes
// are copied only once. They are never in the buffer: if the large Write ends early, the bytes not yet
// read are not written, even if the buffer had room for them.
//
// Pipes that share a token bucket with a period of a millisecond or less get equal parts of its rate, whatever the
// sizes of their Writes, like the streams of package ioreader. So do pipes that share a chain of rate limiters that
// starts with such a bucket, and so do pipes that share a [core.Switch] or a limiter per key while its current limiter
// is one of these. If the chain contains a concurrency limiter, or if the limiter is not from package core, a pipe
// with larger Writes gets more. The permits of a fixed or sliding window become available all together, and a pipe
// with larger Writes gets more of these too.
//
// # Closing
//
// Close the [Writer] to end the stream: the [Reader] gets the buffered bytes and then io.EOF.
// Close the Reader to stop early: the buffered bytes are dropped and their permits returned.
// Always close the Reader or read to the end: bytes that stay in the buffer keep their permits.
package pipe

// Inside: a pipe is a mutex, a ring that grows, and a condition for each side; one call of each side has its
// turn. What can be read is the buffer, followed by the bytes that a large Write lends out of its own
// slice while it waits. A hold.Ledger keeps what the buffered bytes hold: nothing, plain permits of a
// concurrency limiter, or leases.
