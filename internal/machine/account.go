package machine

// Account is all that the machine knows of a kind of limiter: the permits that are taken, and when
// they come back. It is plain arithmetic in integers. Nothing is taken from the zero value. The
// accounts are [Permits], [Bucket], [Segments] and [Remote]; their owner decides where they lie in
// memory.
//
// More than the limit may be taken: by Settle, or because an Update lowered the limit of an account other than
// a Bucket. Then nothing is available until the excess has come back.
type Account interface {
	// bind replaces the terms. Permits that are taken stay taken; of a Bucket, the available tokens stay.
	// old is nil at the start.
	bind(old, t *Terms, now int64)

	// advance returns the permits that are due by now and reports whether there were any.
	advance(t *Terms, now int64) bool

	// available returns the permits that can be taken, never below 0.
	available(t *Terms) int

	// Try takes n permits, at least 1, of a limiter that replenishes by itself and for which no
	// request waits. It returns the permits that are left and the instant at which all are back; or,
	// if the permits are not available, the instant at which they will be.
	Try(t *Terms, now int64, n int) (left int, fullAt, readyAt int64, ok bool)

	// take takes n permits, available or not. A rate limiter's sum of
	// taken permits is capped at math.MaxInt. For a concurrency limiter n may be below 0, and then returns permits.
	take(t *Terms, now int64, n int)

	// settle corrects the cost of a rate limiter's grant to n permits. It reports whether all
	// n permits are missing now as if they had been granted at this instant.
	settle(t *Terms, now int64, g Grant, n int) (renewed bool)

	// giveBack returns n permits of a rate limiter, at least 1, whichever grants took them, but no more than are
	// missing: those that come back first. It reports whether it could.
	giveBack(t *Terms, now int64, n int) bool

	// keeps reports whether settling a grant made under t may still return permits once u have replaced t.
	keeps(t, u *Terms) bool

	// record returns what settle will need to know of a grant made now, with which all permits are back at fullAt: see
	// Grant. missing is Limit less the available permits, except for a bucket.
	record(t *Terms, now, fullAt int64) (at int64, missing int)

	// reset returns a rate limiter's account to its initial state.
	reset(t *Terms, now int64)

	// readyAt returns the first instant, now or later, at which n permits can be taken if
	// nothing else is taken; n is at most the limit.
	readyAt(t *Terms, now int64, n int) int64

	// uniformTo returns the largest number of permits for which a waiter never leaves permits unused while it
	// waits. If no waiter wants more, the time at which a later one is served depends only on the sum of
	// their permits; see servedAt.
	uniformTo(t *Terms) int

	// servedAt returns the first instant, now or later, at which n permits can be taken after
	// waiters, all of them uniform, have taken ahead permits as they came.
	servedAt(t *Terms, now int64, ahead, n int) int64

	// mostPlayed returns how many waiters may be played on a clone of the account to find the instant at which a
	// later request is served, if some are for more than uniformTo. It would take a long time for more, under the caller's
	// lock. 0: the future cannot be played.
	mostPlayed(t *Terms) int

	// fullAt returns the instant by which all permits are back if nothing more is taken. For a
	// manual limiter, it is the instant by which Replenish would bring all back.
	fullAt(t *Terms, now int64) int64

	// idle returns the instant from which all permits have been available, and whether they
	// are.
	idle(t *Terms) (since int64, ok bool)

	// clone returns an account of the same state, to play the future on.
	clone() Account
}

// mostPlayed is how many waiters are played on an account with little arithmetic.
const mostPlayed = 512

// Copy returns an account of the same kind and state.
func Copy(a Account) Account { return a.clone() }

// Grant is what Settle needs to know about the grant of a rate limiter. All of it was in the answer, so the
// machine keeps no record of a grant.
type Grant struct {
	Permits int
	Epoch   uint32
	At      int64 // Answer.GrantAt
	Missing int   // a bucket's: the tokens missing right after it, but for those that were overdue
	FullAt  int64 // a bucket's: the instant by which these come; may be Never
	Reduced bool  // part of the grant was returned before, so Missing is of more permits than are left
}
