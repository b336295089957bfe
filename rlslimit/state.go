package rlslimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
)

// Rule is a rule of a [Service] as it is now.
type Rule struct {
	Domain string
	Name   string // the keys and values that lead to it, as key1_value1.key2; of the limits that requests bring: override
	Limit  string // as 5/minute, or as package spec reads it; "" of the limits that requests bring
	Shadow bool   // it is over its limit, and lets requests through: shadow_mode or quota_mode
	Counts
	Details map[string]Counts // by names with values, if detailed_metric or value_to_metric wants them; Counts is of the others

	State      *core.Statistics // of a rule with one limiter; nil: there is none now, or there are many
	Keys       int              // limiters that are live
	Overflowed uint64           // requests that found no room, and shared the limiter of a group
}

// Counts are the hits of a rule since it exists, by decision.
type Counts struct {
	Granted    uint64
	Rejected   uint64 // over the limit
	Shadowed   uint64 // over the limit, and let through
	GivenBack  uint64
	Unanswered uint64 // requests, not hits, that the store did not decide: fail-open did
}

func (c *counts) load() Counts {
	return Counts{c.granted.Load(), c.rejected.Load(), c.shadowed.Load(), c.givenBack.Load(), c.unanswered.Load()}
}

// Rules returns the rules of all domains, each domain's in the order of the files, and those for the limits that
// requests bring last. It does not ask the store.
func (s *Service) Rules() []Rule {
	st := s.state.Load()
	if st == nil {
		return nil
	}
	rules := make([]Rule, len(st.rules))
	for i, r := range st.rules {
		rules[i] = r.report()
	}
	return rules
}

func (r *rule) report() Rule {
	c := r.config.Load()
	own, rest := r.own.Counts(), r.rest.Counts()
	report := Rule{
		Domain: r.domain, Name: c.name, Shadow: c.shadow || c.quota, Counts: r.counts.load(),
		Keys: own.Live + rest.Live, Overflowed: r.overflowed.Load(),
	}
	if !c.byLimit {
		report.Limit = c.limit.String()
	}
	if len(c.valueParts) == 0 && !c.byLimit {
		if l, ok := r.own.Get(key{}); ok && r.shared.Store == nil {
			if reporter, ok := l.(core.Reporter); ok {
				s := reporter.Statistics()
				report.State = &s
			}
		}
	}
	r.details.Range(func(name, c any) bool {
		if report.Details == nil {
			report.Details = make(map[string]Counts)
		}
		report.Details[name.(string)] = c.(*counts).load()
		return true
	})
	return report
}

// ErrNoRule is returned by [Service.Reset] if no rule has the name.
var ErrNoRule = errors.New("rlslimit: no rule has that name")

// Reset resets limiters of the rules named DOMAIN/NAME, as [Rule] has the names. Without values it resets all limiters that
// this process has. With values it resets the limiter of these values: one value, in order, for each entry that has no value or
// one with a *. If several rules have the name, Reset takes those with as many values. It returns how many limiters it has
// reset. With a store the limiters of the values are reset for all processes, but other processes still use what they have
// prefetched, and remember for a while that a limit was used up. A limiter that only other processes have counts if permits of
// it are taken. If the store has not confirmed a reset, Reset stops and returns the error, which matches [redislimit.ErrStore]
// if the store is unreachable.
func (s *Service) Reset(ctx context.Context, name string, values ...string) (int, error) {
	st := s.state.Load()
	if st == nil {
		return 0, errClosed
	}
	n := 0
	wrong := fmt.Errorf("%w: %q", ErrNoRule, name)
	for _, r := range st.rules {
		c := r.config.Load()
		if r.domain+"/"+c.name != name {
			continue
		}
		if len(values) > 0 && (c.byLimit || len(values) != len(c.valueParts)) {
			if wrong != nil {
				wrong = fmt.Errorf("rlslimit: %d values for a rule that has %d", len(values), len(c.valueParts))
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return n, err
		}
		wrong = nil
		reset, err := r.reset(values)
		if n += reset; err != nil {
			return n, err
		}
	}
	return n, wrong
}

// reset resets the limiters of a rule.
func (r *rule) reset(values []string) (n int, err error) {
	if len(values) == 0 {
		for f := range r.all {
			if err := f.reset(); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	own := keyOf(len(values), func(i int) string { return values[i] })
	for _, at := range []take{{from: r.own, key: own}, {from: r.rest, key: groupOf(own)}} {
		l, _ := at.from.Get(at.key)
		f, has := l.(*follower)
		if has {
			err = f.reset()
		} else if r.shared.Store != nil {
			has, err = r.resetElsewhere(at.key)
		}
		if err != nil {
			return n, err
		}
		if has {
			n++
		}
	}
	return n, nil
}

// resetElsewhere resets a limiter that only other processes may have. It reports whether permits of it were taken.
func (r *rule) resetElsewhere(k key) (bool, error) {
	f, err := r.follow(k)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	was := f.Statistics()
	return was.Available < was.Limit, f.reset()
}

// reset resets the limiter. It returns an error if the store has not confirmed that.
func (f *follower) reset() error {
	if shared, ok := f.limiter.(interface{ TryReset() error }); ok {
		return shared.TryReset()
	}
	f.Reset()
	return nil
}
