package limitertest

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Run checks the limiters that c.New returns, each part of the rules in a subtest. If the subtest
// "requests" fails, Run ends there, because all others make requests too. An invalid Config fails
// the test, with all its errors.
//
// If the limiter's waiters block on a mutex, instead of a channel or a sync.Cond, the bubble
// hangs, and Run with it.
func Run(t *testing.T, c Config) {
	t.Helper()
	if err := c.validate(partNames()); err != nil {
		t.Fatal(err)
	}
	for i, part := range parts() {
		ok := t.Run(part.name, func(t *testing.T) {
			skipped, errs := c.judge(t, part)
			if skipped != "" {
				t.Skip(skipped)
			}
			for _, err := range errs {
				t.Error(err)
			}
		})
		if i == 0 && !ok {
			return
		}
	}
}

// judge returns why a part does not apply, or how the limiters break its rules.
func (c Config) judge(t *testing.T, part part) (skipped string, errs []error) {
	t.Helper()
	for _, test := range part.tests(c) {
		s := &subject{Config: c.normal()}
		s.examine(t, part, test)
		if errs = s.all(); s.skipped != "" || len(errs) > 0 {
			return s.skipped, errs
		}
	}
	return "", nil
}

// examine runs a test on a new limiter, in a bubble, and ensures that it ends.
func (s *subject) examine(t *testing.T, part part, test func(*subject)) {
	t.Helper()
	defer func() {
		// synctest panics, on this goroutine, if a goroutine of the bubble can't end.
		if cause := recover(); cause != nil && len(s.all()) == 0 {
			s.errorf("goroutines stay blocked, though contexts are canceled and the limiter is closed if it can be: %v", cause)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.ctx = ctx
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { s.panicked(recover()) }()
			defer s.clear()
			s.renew()
			if part.reach(s) {
				test(s)
			}
		}()
		s.watch(done)
	})
}

// watch waits until done, or until a call takes longer than it ever should.
func (s *subject) watch(done <-chan struct{}) {
	const refills = 1000
	patience := time.Minute
	if s.Refill < math.MaxInt64/refills/2 {
		patience += refills * s.Refill
	}
	for {
		passes := s.passes.Load()
		limit := time.NewTimer(patience)
		select {
		case <-done:
			limit.Stop()
			return
		case <-limit.C:
			if passes%2 == 0 && passes == s.passes.Load() {
				s.errorf("a call does not return")
				return
			}
		}
	}
}
