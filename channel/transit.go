package channel

import "sync/atomic"

// transit counts those that may hold permits on their way between the limiter and the
// queue: senders that ask for them or have just got them, receivers that have taken an
// item and not yet released its lease. A sender that finds no permits, and nothing to
// evict, learns from it whether they are truly elsewhere. Only the modes that evict count,
// and not with a concurrency limiter: see trySendCounted.
//
//	63 ............ 32 31 ............ 0
//	    grants so far     on their way
type transit struct{ word atomic.Uint64 }

const transitGrant = 1 << 32

// transitState is the word of a transit at an instant.
type transitState uint64

func (t *transit) begin() { t.word.Add(1) }

// grant notes that one of those on their way, a sender, has got its permits.
func (t *transit) grant() { t.word.Add(transitGrant) }

func (t *transit) end() { t.word.Add(^uint64(0)) }

func (t *transit) load() transitState { return transitState(t.word.Load()) }

func (s transitState) busy() bool { return uint32(s) > 0 } //nolint:gosec // the lower half

func (s transitState) grants() uint32 { return uint32(s >> 32) }
