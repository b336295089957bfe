package machine

// KeptBucket is the state of a bucket that is kept elsewhere, for example by a server, for questions about its future. It
// does not change. Its instants may be of any unit and origin, which are those of the terms' Span.
type KeptBucket struct {
	Missing int   // tokens, as of Tick; above the limit, the bucket is in debt
	Tick    int64 // the latest tick applied
}

// at returns the account of the bucket at an instant.
func (k KeptBucket) at(t *Terms, now int64) Bucket {
	b := Bucket{missing: k.Missing, tick: k.Tick}
	b.advance(t, now)
	return b
}

// Available returns how many tokens can be taken at an instant.
func (k KeptBucket) Available(t *Terms, now int64) int {
	b := k.at(t, now)
	return b.available(t)
}

// ReadyAt returns the first instant, now or later, at which n tokens can be taken, or Never. If n is more than the limit,
// some of the tokens are for waiters, which take them as soon as they come.
func (k KeptBucket) ReadyAt(t *Terms, now int64, n int) int64 {
	b := k.at(t, now)
	return b.servedAt(t, now, 0, n)
}

// FullAt returns the instant at which all tokens are back, or Never.
func (k KeptBucket) FullAt(t *Terms, now int64) int64 {
	b := k.at(t, now)
	return b.fullAt(t, now)
}
