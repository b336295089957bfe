package redislimit

import "time"

// operation is what the store is asked to do, other than to take permits for a caller: to look, to give permits back, to
// charge, to renew and release leases, to reset. It is done by the next call.
type operation struct {
	args  []int64 // of the script: the code and its numbers
	most  int64   // the most that can be done; 0: it is no number of permits
	first bool    // it comes before all others in its call
	frees bool    // permits come back by it, if anything is done

	urgent bool // it is sent even while the breaker is open, and a late reply counts

	due  time.Time     // when its Timeout is over; zero: a call of others decides
	done chan struct{} // closed when it has ended; nil: nobody waits for it

	// then is called when it has ended, with the engine's mutex held; nil: nothing is. The call was sent then.
	then func(sent time.Time, a answer, err error)

	answer answer // once it has ended
	err    error  // why it was not done
}

func look() *operation { return &operation{args: []int64{int64(codeLook)}} }

// resetAll makes a rate limiter as new.
func resetAll() *operation {
	return &operation{args: []int64{int64(codeReset)}, first: true, frees: true}
}

// rebind has a bucket go over from the limits before.
func rebind(old *limits) *operation {
	args := []int64{int64(codeBind), int64(old.limit), old.step, old.span}
	return &operation{args: args, first: true, frees: true}
}

// giveBack gives back permits of a rate limiter's grant.
func giveBack(permits int64, s stamp) *operation {
	return &operation{args: []int64{int64(codeGive), permits, s.at, s.missing, s.version}, most: permits, frees: true}
}

// giveBackAny gives back permits of whatever grants.
func giveBackAny(permits int64) *operation {
	return &operation{args: []int64{int64(codeReturn), permits}, most: permits, frees: true}
}

// charge takes permits of a rate limiter, available or not, in addition to those of a grant that may still be missing.
func charge(permits, had int64, s stamp) *operation {
	return &operation{args: []int64{int64(codeCharge), permits, had, s.at, s.missing, s.version}}
}

// chargeLease takes permits of a concurrency limiter, available or not, as a lease with that id.
func chargeLease(id, permits int64) *operation {
	return &operation{args: []int64{int64(codeCharge), permits, id}}
}

// renew renews a lease. Its permits change only if the version is not lower than the latest that the server has seen.
func renew(id, permits, version int64) *operation {
	return &operation{args: []int64{int64(codeRenew), id, permits, version}, frees: true}
}

func release(id int64) *operation {
	return &operation{args: []int64{int64(codeRelease), id}, frees: true}
}
