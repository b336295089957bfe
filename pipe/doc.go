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
// Write returns when its bytes are in the buffer or have been read. The buffer holds up to
// 64 KiB, plus the limit of a concurrency limiter on the write side. Its memory grows as it fills.
// A chain, or a limiter from another package, also costs about 64 bytes for each Write whose
// bytes are in the buffer.
//
// A Write that waits for room continues when the rest of its bytes fit, or when half of the
// buffer is free. A Write of 16 KiB or more that waits for the reader, or finds a reader
// waiting, may be read directly from the slice passed to Write, so that its bytes are copied
// only once.
//
// Pipes that share a rate limiter get equal parts of its rate, whatever the sizes of their
// Writes, like the streams of package ioreader.
//
// # Closing
//
// Close the [Writer] to end the stream: the [Reader] gets the buffered bytes and then io.EOF.
// Close the Reader to stop early: the buffered bytes are dropped and their permits given back.
// Always close the Reader or read to the end: bytes that stay in the buffer keep their permits.
package pipe
