// Package pipe provides an in-memory byte pipe with a buffer and limiters: [New] is the
// counterpart of io.Pipe, and [Conns] that of net.Pipe. A permit is a byte.
//
//	r, w, err := pipe.New(pipe.Options{})
//	if err != nil {
//		return err
//	}
//	go func() {
//		_, err := io.Copy(w, source)
//		w.CloseWithError(err) // nil: the reader gets io.EOF
//	}()
//	_, err = io.Copy(destination, r)
//	r.Close()
//
// [Options] limit the pipe. Bytes that have been written and not yet read hold the leases
// of WriteLimiter: a concurrency limiter bounds the memory and makes a writer wait, a token
// bucket sets the rate, and a chain of both does both. Several pipes may share a limiter.
// ReadLimiter is asked for every byte that is read.
//
// # The buffer
//
// Write returns when its bytes are in the buffer, or have been read. The buffer holds 64 KiB,
// and more where a concurrency limiter admits more. Its memory grows as it fills. A chain, or a
// limiter of another package, also costs some 64 bytes for each Write whose bytes are in the buffer.
//
// A Write that waits for room continues when the rest of it fits, or when half of the buffer
// is free. A Write of 16 KiB or more that waits for the reader, or finds it waiting, is read
// out of the writer's own slice: its bytes are copied once.
//
// Pipes that share a rate limiter get equal parts of it, whatever the sizes of their Writes, as
// the streams of package ioreader do.
//
// # Closing
//
// Close the [Writer] to end the stream: the [Reader] gets what is buffered and then io.EOF. Close
// the Reader to give up: the buffered bytes are dropped and their leases released. Close the
// Reader in any case, or read to the end: leases of bytes that are never read stay held.
package pipe
