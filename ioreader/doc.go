// Package ioreader throttles readers, writers, connections, listeners, dialers and copies with
// the limiters of package core. A permit is a byte.
//
//	limiter, err := core.NewTokenBucket(ioreader.PerSecond(8 << 20)) // 8 MiB/s
//	if err != nil {
//		return err
//	}
//	w := ioreader.NewWriter(ctx, file, limiter)
//	_, err = io.Copy(w, source)
//
// [NewWriter] and [NewReader] wrap any stream, [NewConn] a connection, and [NewListener] and
// [NewDialer] all connections of a server or a client. [Copy] copies and reports progress.
//
// A token bucket bounds the rate of the bytes. A concurrency limiter bounds how many bytes are
// being written at once, that is, inside the Write underneath. A chain does both. Any number of
// streams may share a limiter.
//
// # Slices
//
// A large call is split into slices, so that it is spread over its time and streams that share
// a limiter do not wait long for each other. A slice is what the limiter's rate brings in 2 ms,
// at most 64 KiB, and at most an eighth of the limit. The rate is the one that the limiter's
// leases report ([core.Window] or [core.ResetAfter]). Where they report none, a slice is an
// eighth of the limit, and if the limit is unknown too, its size follows from how long the
// limiter makes the stream wait. A changed limit is obeyed from the next slice on. A call for
// more bytes than the limit is never refused for that reason.
//
// # Fairness
//
// Streams that share a rate limiter of package core get equal parts of it, whatever the sizes
// of their calls. A call that is smaller than a slice would get less each time that it waits. So
// when such a call has waited while others were waiting, the next calls of its stream within 5 ms
// may pass the rest of a slice on credit, and the stream pays before it passes more. It never
// owes more than one slice, nor more than a sixteenth of what it has paid; a stream that is
// closed leaves its debt unpaid.
//
// # What a stream holds
//
// Permits for a slice are taken before it is written; those that turn out not to be needed are
// given back. A read pays for bytes after they have come, so a stream that is idle, or waits for
// its peer, holds nothing. If a read has to end before it can pay, the next one gets the bytes.
//
// A stream holds no permits while it waits for others of the same limiter: a copy from a Reader
// to a Writer with one limiter goes on, and so does a Writer around another.
package ioreader
