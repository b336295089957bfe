package adaptive

import (
	"cmp"
	"time"
)

// AIMD grows the limit by one, and shrinks it by a share.
type AIMD struct {
	Timeout time.Duration // a lease held longer counts as dropped. 0: 5 s
	Backoff float64       // what a drop leaves of the limit, from 0.5 and below 1. 0: 0.9
}

const (
	defaultTimeout = 5 * time.Second
	defaultBackoff = 0.9
)

func (a AIMD) validate() error {
	f := faults{options: "AIMD"}
	f.must(a.Timeout >= 0, "Timeout", a.Timeout, "at least 0")
	f.must(a.Backoff == 0 || a.Backoff > 0 && a.Backoff < 1, "Backoff", a.Backoff, "above 0 and below 1")
	return f.err()
}

// New returns an algorithm with these settings.
func (a AIMD) New() Algorithm {
	return &aimd{
		Timeout: cmp.Or(a.Timeout, defaultTimeout),
		Backoff: cmp.Or(a.Backoff, defaultBackoff),
	}
}

// Next is the first step of a new algorithm with these settings.
func (a AIMD) Next(s Sample) float64 { return a.New().Next(s) }

type aimd AIMD

func (a *aimd) Next(s Sample) float64 {
	limit := float64(s.Limit)
	if s.Dropped || s.Duration > a.Timeout {
		return limit * a.Backoff
	}
	return limit + 1
}
