// Package pipe is an in-memory byte pipe with a buffer and with limiters: [New] is what
// io.Pipe is, [Conns] what net.Pipe is. Permits are bytes.
//
// Bytes that were written and not yet read hold WriteLimiter's leases. So a concurrency
// limiter bounds the memory and pushes back on the writer, a token bucket sets the rate,
// and a chain of both does both; several pipes may share one. ReadLimiter is asked for
// every byte that is read.
//
// # The buffer
//
// A Write returns when its bytes are in the buffer, or read. The buffer holds 64 KiB;
// under a limiter that is not a rate limiter it holds what the limiter grants. It takes
// memory as it fills, in blocks of 1 to 16 KiB; under a chain, or a limiter of your own, also 64
// bytes for each lease that it holds, one for each small Write. A Write that has to wait
// for room goes on when what is left of it fits, or half the buffer is free. A Read that
// waits gets the bytes of a large Write straight into its own slice, and one that comes while
// a Write waits for room takes them straight out of the writer's: they are copied once.
//
// Pipes that share a limiter share it in equal parts, whatever the sizes of their Writes: as in
// package ioreader, calls are cut into slices, and a small Write that has to wait while
// others wait too is granted a whole one, for the next Writes.
//
// # How to end
//
// Close the Writer to end the stream: the Reader gets what is buffered, then io.EOF. Close
// the Reader to give up: the buffered bytes are dropped and their leases released. Always
// close the Reader, or read to the end: leases of bytes that nobody reads stay held.
package pipe
