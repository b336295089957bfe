package rlslimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Rule is a rule of a [Service] as it is now.
type Rule struct {
	Domain string `json:"-"`
	Name   string `json:"-"`                // the keys and values that lead to it, as key1_value1.key2; of the limits that requests bring: override
	Limit  string `json:"limit,omitempty"`  // limit, as 5/minute, or as package spec reads one or several; "" for the limits that requests bring
	Shadow bool   `json:"shadow,omitempty"` // it is over its limit, and lets requests through: shadow_mode or quota_mode
	Counts
	Details map[string]Counts `json:"-"` // counts by names with values, if detailed_metric or value_to_metric is set; Counts has the others

	Keys       int    `json:"limiters"`             // limiters that are live
	Overflowed uint64 `json:"overflowed,omitempty"` // requests that found no room, and shared the limiter of a group
}

// Counts are the hits of a rule since it exists, by decision.
type Counts struct {
	Granted   uint64 `json:"granted"`
	Rejected  uint64 `json:"rejected"`           // over the limit
	Shadowed  uint64 `json:"shadowed,omitempty"` // over the limit, and let through
	Returned  uint64 `json:"returned,omitempty"`
	Undecided uint64 `json:"undecided,omitempty"` // requests, not hits, that the store did not decide: fail-open did
}

func (c *counts) load() Counts {
	return Counts{c.granted.Load(), c.rejected.Load(), c.shadowed.Load(), c.returned.Load(), c.undecided.Load()}
}

// add adds other counts to c.
func (c *counts) add(other *counts) {
	c.granted.Add(other.granted.Load())
	c.rejected.Add(other.rejected.Load())
	c.shadowed.Add(other.shadowed.Load())
	c.returned.Add(other.returned.Load())
	c.undecided.Add(other.undecided.Load())
}

// Rules returns the rules of all domains, each domain's in the order of the files, and those for the limits that
// requests bring last. It does not call the store.
func (s *Service) Rules() []Rule {
	st := s.state.Load()
	if st == nil {
		return nil
	}
	rules := make([]Rule, 0, len(st.rules))
	for _, r := range st.rules {
		if last := len(rules) - 1; last >= 0 && r.config.Load().isOther {
			of := r.report()
			rules[last].Limit += ", " + of.Limit
			rules[last].Keys += of.Keys
			continue
		}
		rules = append(rules, r.report())
	}
	return rules
}

func (r *rule) report() Rule {
	c, all := r.config.Load(), r.details.Load()
	if all != nil {
		all.Sweep() // names that nobody uses are dropped also if no requests come
	}
	live := r.limiters.Counts()
	report := Rule{
		Domain: r.domain, Name: c.name, Shadow: c.shadow || c.quota, Counts: r.counts.load(),
		Keys: live.Live + live.Groups, Overflowed: live.Overflowed,
	}
	if !c.byLimit {
		report.Limit = c.limit.String()
	}
	if all != nil {
		report.Details = make(map[string]Counts)
		for name, l := range all.All() {
			report.Details[name] = l.(*detail).load()
		}
	}
	return report
}

// ErrNoRule is returned by [Service.Reset] if no rule has the name and as many values.
var ErrNoRule = errors.New("rlslimit: no rule has that name and number of values")

// Reset resets limiters of the rules named DOMAIN/NAME, as [Rule] has the names. Without values it resets all limiters that
// this process has. With values it resets the limiter of these values: one value, in order, for each entry that has no value or
// one with a *. Rules with another number of values are left out. It returns how many limiters it has
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
	err := fmt.Errorf("%w: %q", ErrNoRule, name)
	for _, r := range st.rules {
		c := r.config.Load()
		if r.domain+"/"+c.name != name || len(values) > 0 && (c.byLimit || len(values) != len(c.valueParts)) {
			continue
		}
		reset := 0
		if err = ctx.Err(); err == nil {
			reset, err = r.reset(values)
		}
		if n += reset; err != nil {
			break
		}
	}
	return n, err
}

// reset resets the limiters of a rule: all that are live, or those of a key and of its group.
func (r *rule) reset(values []string) (n int, err error) {
	var keys []key // still to be reset
	if len(values) > 0 {
		own := keyOf(values)
		keys = []key{own, groupOf(own)}
	}
	for k, live := range r.limiters.All() {
		l, ok := live.(*limiter)
		at := slices.Index(keys, k)
		if !ok || len(values) > 0 && at < 0 {
			continue
		}
		if err := l.reset(); err != nil {
			return n, err
		}
		n++
		if at >= 0 {
			keys = slices.Delete(keys, at, at+1)
		}
	}
	if r.shared.Store == nil {
		return n, nil
	}
	for _, k := range keys {
		had, err := r.resetStored(k)
		if err != nil {
			return n, err
		}
		if had {
			n++
		}
	}
	return n, nil
}

// resetStored resets the limiter of a key that only other processes may have. It reports whether permits of it were taken.
func (r *rule) resetStored(k key) (had bool, err error) {
	l, err := r.newLimiter(r.config.Load(), k)
	if err != nil {
		return false, err
	}
	defer func() { _ = l.Close() }()
	was := l.Statistics()
	return was.Available < was.Limit, l.reset()
}
