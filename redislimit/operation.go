package redislimit

import "time"

// operation is anything that the store is asked for other than a caller's permits: to read the state, to return or charge
// permits, to renew and release leases, to reset. The next call performs it.
type operation struct {
	args    []int64 // of the script: the code and its numbers
	maxDone int64   // the largest number that the script may report as done; 0 if that is no number of permits
	first   bool    // it goes before all others in its call
	frees   bool    // permits come back if anything is done

	urgent bool // it is sent even while the breaker is open

	expires time.Time     // when its Timeout ends; zero if no caller waits for it
	done    chan struct{} // closed when it has ended; nil if it was not sent

	// then, if it is not nil, is called with the engine's mutex held when the operation has ended. sent is when its call was sent.
	then func(sent time.Time, r result, err error)

	result result // once it has ended
	err    error  // why it was not performed
}

func readOp() *operation { return &operation{args: []int64{int64(codeRead)}} }

// resetOp makes all permits of a rate limiter available.
func resetOp() *operation {
	return &operation{args: []int64{int64(codeReset)}, first: true, frees: true}
}

// giveOp returns permits of a rate limiter's grant.
func giveOp(permits int64, s stamp) *operation {
	return &operation{args: []int64{int64(codeGive), permits, s.at, s.missing, s.version}, maxDone: permits, frees: true}
}

// returnOp returns permits of a rate limiter, whichever grants took them.
func returnOp(permits int64) *operation {
	return &operation{args: []int64{int64(codeReturn), permits}, maxDone: permits, frees: true}
}

// chargeOp takes permits of a rate limiter, available or not, in addition to those of a grant that may still be missing.
func chargeOp(permits, had int64, s stamp) *operation {
	return &operation{args: []int64{int64(codeCharge), permits, had, s.at, s.missing, s.version}}
}

// chargeLeaseOp takes permits of a concurrency limiter, available or not, as a lease with that id.
func chargeLeaseOp(id, permits int64) *operation {
	return &operation{args: []int64{int64(codeCharge), permits, id}}
}

// renewOp renews a lease. Its permits change only if the server has not seen a higher version.
func renewOp(id, permits, version int64) *operation {
	return &operation{args: []int64{int64(codeRenew), id, permits, version}, frees: true}
}

func releaseOp(id int64) *operation {
	return &operation{args: []int64{int64(codeRelease), id}, frees: true}
}
