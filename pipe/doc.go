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
// [Options] sets the limiters. Bytes that have been written and not yet read hold permits of
// WriteLimiter. A concurrency limiter bounds the memory and makes writers wait, a token bucket
// bounds the rate, and a [core.Chain] of the two does both. ReadLimiter grants the bytes that
// are read. Several pipes may share a limiter.
//
// # The buffer
//
// Write returns when its bytes are in the buffer or have been read. A concurrency limiter on the write
// side, or a chain that contains one, bounds the buffer by its limit. Any other pipe buffers up to
// 64 KiB, and with a limiter from another package that limiter's limit more. The memory grows as the
// buffer fills.
//
// The bytes of a Write hold one lease if the limiter is a chain or from another package. The lease of a
// chain of two takes about 430 bytes of memory until the Write's bytes have been read, so the memory of
// many small Writes is far more than the limit of such a chain. Write through a bufio.Writer, or use a
// concurrency limiter alone, which takes no memory for a Write.
//
// A Write that waits for room continues when the rest of its bytes fit, or when half of the
// buffer is free. A Write of 16 KiB or more that waits for the reader may be read directly from the slice
// passed to Write, and a Write copies its bytes directly into the slice of a Read that waits. Such bytes
// are copied only once. They are never in the buffer: if the large Write ends early, the bytes not yet
// read are not written, even if the buffer had room for them.
//
// Pipes that share a token bucket with a period of a millisecond or less get equal parts of its rate,
// whatever the sizes of their Writes, like the streams of package ioreader. So do pipes that share a chain of
// rate limiters that starts with such a bucket. If the chain contains a concurrency limiter, or the limiter is
// of another package, a pipe with larger Writes gets more. The permits of a fixed or sliding window become
// available all at once, and a pipe with larger Writes gets more of these too.
//
// # Closing
//
// Close the [Writer] to end the stream: the [Reader] gets the buffered bytes and then io.EOF.
// Close the Reader to stop early: the buffered bytes are dropped and their permits given back.
// Always close the Reader or read to the end: bytes that stay in the buffer keep their permits.
//
// # Inside
//
// A pipe is a mutex, a ring that grows, and a condition for each side; one call of each side has its
// turn. What can be read is the buffer, followed by the bytes that a large Write lends out of its own
// slice while it waits. The buffered bytes hold a concurrency limiter's plain permits, or a queue of
// leases with the position at which each ends.
package pipe
