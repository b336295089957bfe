package limitertest

import (
	"context"
	"math"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Run checks the limiters that c.New returns, each rule in a subtest. First the subtest
// "config" makes a limiter; if that fails, no rule is checked. An invalid Config fails the test,
// with all its errors.
//
// If the limiter's waiters block on a mutex, instead of a channel or a sync.Cond, the bubble
// hangs, and Run with it.
func Run(t *testing.T, c Config) {
	t.Helper()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	var f *facts
	if !t.Run("config", func(t *testing.T) {
		var errs []ruleError
		f, errs = c.facts(t)
		report(t, errs)
	}) {
		return
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			skipped, errs := f.judge(t, r)
			if skipped != "" {
				t.Skip(skipped)
			}
			report(t, errs)
		})
	}
}

func report(t *testing.T, errs []ruleError) {
	t.Helper()
	for _, err := range errs {
		t.Error(err)
	}
}

// rule is one property that every limiter must have. The plays notice a limiter that breaks it,
// or check does, or both do.
type rule struct {
	name  string
	needs needs // of check
	check func(*subject)
}

// judge returns why the rule does not apply, or how the limiters break it.
func (f *facts) judge(t *testing.T, r rule) (skipped string, errs []ruleError) {
	t.Helper()
	if slices.Contains(f.Skip, r.name) {
		return "Config.Skip", nil
	}
	for _, err := range f.played {
		if err.rule == r.name {
			errs = append(errs, err)
		}
	}
	why := "the limiter is never in such a state"
	if r.check != nil {
		if why = r.needs.unmet(f); why == "" {
			return "", append(errs, r.errors(t, f)...)
		}
	}
	if !f.met[r.name] {
		return why, nil
	}
	return "", errs
}

// errors checks the rule, in a bubble if it can be, and returns how it is broken.
func (r rule) errors(t *testing.T, f *facts) (errs []ruleError) {
	t.Helper()
	s := &subject{facts: f, rule: r.name}
	if f.RealTime {
		return s.examine(t.Context(), r.check)
	}
	if r.name == roaming {
		s.facts = f.roaming()
	}
	defer func() {
		// synctest panics, on this goroutine, if a goroutine of the bubble can't end.
		if p := recover(); p != nil && len(errs) == 0 {
			s.errorf("goroutines stay blocked, though contexts are canceled and the limiter is closed if it can be: %v", p)
			errs = s.errs
		}
	}()
	synctest.Test(t, func(t *testing.T) { errs = s.examine(t.Context(), r.check) })
	return errs
}

// roaming returns the facts with a New whose first limiter is made here, outside the bubble.
func (f *facts) roaming() *facts {
	made, elsewhere := f.New(), *f
	elsewhere.New = func() (l core.Limiter) {
		if l, made = made, nil; l == nil {
			l = f.New()
		}
		return l
	}
	return &elsewhere
}

// patience is how long a rule may take by its clock, not counting time that it lets pass on
// purpose: long enough for any limiter that keeps the rule.
func (f *facts) patience() time.Duration {
	const refills = 1000
	if f.RealTime || f.Refill > math.MaxInt64/refills/2 {
		return time.Minute
	}
	return time.Minute + refills*f.Refill
}

// examine runs check on a limiter, and ensures that it ends.
func (s *subject) examine(ctx context.Context, check func(*subject)) []ruleError {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.ctx = ctx
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.end()
		defer func() { s.panicked(recover()) }()
		s.renew()
		check(s)
	}()
	s.watch(done, s.patience())
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.errs)
}

// watch waits until done, or until a call takes longer than it ever should.
func (s *subject) watch(done <-chan struct{}, patience time.Duration) {
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

// wait waits for d, by the bubble's clock. It starts no timer of 0: under the race detector two goroutines of a bubble
// that start one together crash Go 1.26.
func wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
