package core

import "slices"

// refundLog remembers which grants of a rate limiter were refunded. It holds the numbers
// of the refunded in sets of 64, and no more than refundLogSize sets: then it forgets the
// older half, and takes every number up to there for refunded. So a refund is never
// counted twice, and one is lost only if so many younger grants were refunded before it.
type refundLog struct {
	sets  map[uint64]uint64 // number/64: one bit each
	floor uint64            // sets below are forgotten
}

const refundLogSize = 4096

// add reports whether the grant had not been refunded, and notes that it is now.
func (r *refundLog) add(number uint64) bool {
	set, bit := number/64, uint64(1)<<(number%64)
	if set < r.floor || r.sets[set]&bit != 0 {
		return false
	}
	if len(r.sets) >= refundLogSize {
		r.forget()
	}
	if r.sets == nil {
		r.sets = make(map[uint64]uint64)
	}
	r.sets[set] |= bit
	return true
}

// forget drops the older half of the sets.
func (r *refundLog) forget() {
	known := make([]uint64, 0, len(r.sets))
	for set := range r.sets {
		known = append(known, set)
	}
	slices.Sort(known)
	r.floor = known[len(known)/2]
	for _, set := range known[:len(known)/2] {
		delete(r.sets, set)
	}
}
