package limitertest

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
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
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	for i, p := range parts() {
		ok := t.Run(p.name, func(t *testing.T) {
			skipped, errs := c.judge(t, p)
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
func (c Config) judge(t *testing.T, p part) (skipped string, errs []error) {
	t.Helper()
	if slices.Contains(c.Skip, p.name) {
		return "Config.Skip", nil
	}
	var tests []func(*subject)
	if p.step != nil {
		seeds := uint64(plays)
		if c.Grain > 0 {
			seeds /= 6 // each call asks a server
		}
		for seed := range seeds {
			tests = append(tests, func(s *subject) {
				p := &play{subject: s, m: newModel(s.Config), random: rand.New(rand.NewPCG(seed, 0))}
				p.run()
			})
		}
	}
	if p.check != nil {
		tests = append(tests, p.check)
	}
	for _, test := range tests {
		s := &subject{Config: c.normal(), part: p}
		if errs = s.examine(t, test); s.skipped != "" || len(errs) > 0 {
			return s.skipped, errs
		}
	}
	return "", nil
}

// examine runs a test on a new limiter, in a bubble, ensures that it ends, and returns its errors.
func (s *subject) examine(t *testing.T, test func(*subject)) (errs []error) {
	t.Helper()
	defer func() {
		// synctest panics, on this goroutine, if a goroutine of the bubble can't end.
		if p := recover(); p != nil && len(errs) == 0 {
			s.errorf("goroutines stay blocked, though contexts are canceled and the limiter is closed if it can be: %v", p)
			errs = s.errs
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.ctx = ctx
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer s.end()
			defer func() { s.panicked(recover()) }()
			s.renew()
			if s.skipped = s.part.unmet(s); s.skipped == "" {
				s.reach()
				test(s)
			}
		}()
		s.watch(done)
		s.mu.Lock()
		defer s.mu.Unlock()
		errs = slices.Clone(s.errs)
	})
	return errs
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

// panicked turns a panic of the limiter into an error; p is what recover returned.
func (s *subject) panicked(p any) {
	if p != nil {
		s.errorf("panic: %v\n%s", p, debug.Stack())
	}
}
