package machine

import "math"

// Permits is the account of a concurrency limiter. It does not depend on time.
type Permits struct {
	held Total // settled leases may hold more in all than a word can count
}

// Total is a sum of permits of any size.
type Total struct {
	n        uint64 // modulo 2^64
	overflow uint64 // times 2^64
}

// Add adds n, which may be below 0 if the sum stays at least 0.
func (s *Total) Add(n int) {
	before := s.n
	s.n += uint64(n)
	switch {
	case n > 0 && s.n < before:
		s.overflow++
	case n < 0 && s.n > before:
		s.overflow--
	}
}

// Int returns the sum, at most math.MaxInt.
func (s *Total) Int() int {
	if s.overflow > 0 || s.n > math.MaxInt {
		return math.MaxInt
	}
	return int(s.n)
}

// Try takes n permits, at least 1, for which no request waits. It returns the permits that are left.
func (p *Permits) Try(t *Terms, _ int64, n int) (left int, fullAt, readyAt int64, ok bool) {
	left = p.Free(t)
	if n > left {
		return max(left, 0), Never, Never, false
	}
	p.held.n += uint64(n) // cannot overflow, because no more than the limit are held
	return left - n, Never, Never, true
}

// Give returns n permits.
func (p *Permits) Give(n int) { p.held.Add(-n) }

// Free returns how many permits are not held; it is below 0 if more than the limit are.
func (p *Permits) Free(t *Terms) int { return t.Limit - p.held.Int() }

func (p *Permits) take(_ *Terms, _ int64, n int) { p.held.Add(n) }

func (p *Permits) available(t *Terms) int                 { return max(p.Free(t), 0) }
func (p *Permits) idle(t *Terms) (int64, bool)            { return 0, p.Free(t) == t.Limit }
func (p *Permits) clone() Account                         { c := *p; return &c }
func (p *Permits) bind(*Terms, *Terms, int64)             {}
func (p *Permits) keeps(*Terms, *Terms) bool              { return false }
func (p *Permits) giveBack(*Terms, int64, int) bool       { return false }
func (p *Permits) mostPlayed(*Terms) int                  { return 0 }
func (p *Permits) advance(*Terms, int64) bool             { return false }
func (p *Permits) settle(*Terms, int64, Grant, int) bool  { return false }
func (p *Permits) reset(*Terms, int64)                    {}
func (p *Permits) readyAt(*Terms, int64, int) int64       { return Never }
func (p *Permits) uniformTo(*Terms) int                   { return math.MaxInt }
func (p *Permits) servedAt(*Terms, int64, int, int) int64 { return Never }
func (p *Permits) fullAt(*Terms, int64) int64             { return Never }

func (p *Permits) record(t *Terms, now, _ int64) (at int64, missing int) {
	return now, t.Limit - p.available(t)
}
