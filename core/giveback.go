package core

// GiveBack returns n permits for which there is no lease any more. A window gives up those that were taken
// first, and would have come back first. It returns at most what is missing, pays debts first, and serves
// the waiters that now fit. Settling leases from before may then give back nothing. n <= 0 does nothing.
// No statistic counts it. GiveBack may be called after Close. If the lease is still there, use Settle or
// Refund.
func (r *rate) GiveBack(n int) {
	if r.settings.Load() == nil || n <= 0 {
		return
	}
	now := r.lock()
	r.m.GiveBack(now, n)
	r.unlock(now)
}
