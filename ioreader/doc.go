// Package ioreader throttles readers, writers, connections, listeners and copies with the
// limiters of package core. A permit is a byte.
//
// [NewWriter] and [NewReader] wrap anything; [Copy] copies with progress; [NewConn] and
// [NewListener] put limits on connections. [PerSecond] is the bucket for a bandwidth:
//
//	l, err := core.NewTokenBucket(ioreader.PerSecond(8 << 20)) // 8 MiB/s
//	w := ioreader.NewWriter(ctx, file, l)
//
// One limiter may be shared by any number of streams, which then share its bandwidth in
// equal parts, whatever the sizes of their calls. A token bucket bounds the rate of the
// bytes; a concurrency limiter bounds how many are on their way out at once, that is, inside
// the Write underneath; a chain does both.
//
// # Slices
//
// A call is cut into slices of about 2 ms of the limiter's rate, and of at most a quarter
// of its limit, so that a large write is spread over its time, and streams that share the
// limiter do not wait long for each other. The rate is the one that the limiter's leases tell ([core.Window],
// or [core.ResetAfter]), whosever limiter it is; of one that tells none the slice is found
// by trying. A limit that changes is obeyed from the next slice on. A request above the
// limiter's limit is never refused.
//
// A slice is paid for before it is written; what then turns out not to have been needed is
// given back. What is read is paid for when it has come, so a stream that waits for its peer
// holds no permits; if the permits can't be had before the call has to end, the bytes are
// there for the next Read.
//
// A call that has to wait while others wait too, and comes back at once, is given a whole
// slice even if the call is smaller; the rest is there for the next calls. So a writer of
// small pieces gets the same share as a writer of large ones. What is not used within 5 ms,
// or by Close, is given back.
//
// No stream holds permits while it asks for others of the same limiter: a copy from a
// Reader to a Writer of one limiter goes on, and so does a Writer around another.
package ioreader
