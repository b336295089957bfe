package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Limits are several limits that all apply, as in "fixed 1000/day tz Europe/Berlin, concurrency 5". If there are none,
// there is no limit. Limits can be used with [flag.TextVar], encoding/json and anything else that takes an
// [encoding.TextMarshaler].
type Limits []Limit

// ParseLimits returns the limits that s describes, which are separated by commas. Each is what [Parse] reads.
func ParseLimits(s string) (Limits, error) {
	texts := strings.Split(s, ",")
	limits := make(Limits, len(texts))
	for i, text := range texts {
		if len(texts) > 1 && strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("spec: %w", wrong(s, "want a limit before and after each comma"))
		}
		var err error
		if limits[i], err = Parse(text); err != nil {
			if i > 0 && splitsNumber(texts[i-1], text) || i+1 < len(texts) && splitsNumber(text, texts[i+1]) {
				err = fmt.Errorf("%w; a comma separates limits, so write 1000 or 1_000", err)
			}
			return nil, err
		}
	}
	return limits, nil
}

// splitsNumber reports whether a comma between the texts may have been meant as a part of a number.
func splitsNumber(before, after string) bool {
	return before != "" && after != "" && digit(before[len(before)-1]) && digit(after[0])
}

// String returns the limits as a line that ParseLimits reads, separated by commas. No limits are "unlimited".
func (ls Limits) String() string {
	if len(ls) == 0 {
		return Unlimited.String()
	}
	texts := make([]string, len(ls))
	for i, l := range ls {
		texts[i] = l.String()
	}
	return strings.Join(texts, ", ")
}

// MarshalText implements [encoding.TextMarshaler] with String. It returns an error if a Limit is invalid or has
// no text.
func (ls Limits) MarshalText() ([]byte, error) {
	errs := make([]error, len(ls))
	for i, l := range ls {
		_, errs[i] = l.MarshalText()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return []byte(ls.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with ParseLimits. On an error it leaves ls unchanged.
func (ls *Limits) UnmarshalText(text []byte) error {
	parsed, err := ParseLimits(string(text))
	if err != nil {
		return err
	}
	*ls = parsed
	return nil
}

// New returns a new limiter with the limits, each with the name: a [core.ChainedLimiter] of them in their order, or
// the only one. Unlimited ones are left out.
func (ls Limits) New(name string) (core.Limiter, error) { return ls.Apply(nil, name) }

// Apply returns the limiter that takes the place of now when the limits change to ls. now is a limiter of New, of
// Apply, or of a Limit. The limiters in it that have one of the limits, or else are of its kind, stay and are
// updated as by [Limit.Update], so what they have granted still counts. The others are new and have the name.
//
// If all limiters stay in their order, Apply returns now itself, and there is nothing more to do. Otherwise put the
// limiter that it returns in the place of now. Set does so in a [core.Switch], and a partition.Keyed whose Update
// calls Apply does so in its Refresh. If now is nil, Apply is New.
//
// On an error nothing has changed: the Limits are invalid, or now is closed, and then it is [core.ErrClosed].
func (ls Limits) Apply(now core.Limiter, name string) (core.Limiter, error) {
	if err := ls.validate(); err != nil {
		return nil, err
	}
	if backdoor.IsNil(now) {
		return ls.apply(nil, nil, name)
	}
	if err := closed(now); err != nil {
		return nil, err
	}
	if c, ok := now.(*core.ChainedLimiter); ok {
		return ls.apply(now, c.Limiters(), name)
	}
	return ls.apply(now, []core.Limiter{now}, name)
}

// Apply is [Limits.Apply] of a single limit.
func (l Limit) Apply(now core.Limiter, name string) (core.Limiter, error) {
	return Limits{l}.Apply(now, name)
}

// Set changes the limits of a Switch while it is in use: it replaces the current limiter by what Apply returns. If
// the Switch is closed, Set returns [core.ErrClosed]. On an error nothing has changed.
func (ls Limits) Set(s *core.Switch, name string) error {
	if s == nil {
		return fmt.Errorf("%w: nil, want a Switch", ErrKind)
	}
	before := s.Limiter()
	after, err := ls.Apply(before, name)
	if err != nil || backdoor.Same(after, before) {
		return err
	}
	s.Set(after)
	if backdoor.Same(s.Limiter(), before) {
		return core.ErrClosed
	}
	return nil
}

// Set is [Limits.Set] of a single limit.
func (l Limit) Set(s *core.Switch, name string) error { return Limits{l}.Set(s, name) }

func (ls Limits) validate() error {
	var errs []error
	for _, l := range ls {
		if err := l.validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// apply is like Apply, but for valid Limits and an open limiter, which consists of had.
func (ls Limits) apply(now core.Limiter, had []core.Limiter, name string) (core.Limiter, error) {
	limits := slices.DeleteFunc(slices.Clone(ls), func(l Limit) bool { return l.Kind == Unlimited })
	if len(limits) == 0 {
		limits = Limits{{}}
	}
	stay := match(limits, had)
	parts := make([]core.Limiter, len(limits))
	for i, c := range stay {
		if c != nil {
			parts[i] = c.limiter
			continue
		}
		var err error
		if parts[i], err = limits[i].New(name); err != nil {
			return nil, err
		}
	}
	after := now
	if !slices.EqualFunc(parts, had, same) {
		var err error
		if after, err = together(parts); err != nil {
			return nil, err
		}
	}
	if err := anyClosed(had); err != nil {
		return nil, err
	}
	for _, c := range stay { // last, because nothing may fail after it
		if c != nil {
			if err := c.update(); err != nil {
				return nil, err
			}
		}
	}
	return after, nil
}

func same(a, b core.Limiter) bool { return backdoor.Same(a, b) }

// match returns for each limit the change of the limiter that stays: one that has the limit already, or else one of its
// kind; nil if none stays.
func match(limits Limits, had []core.Limiter) []*change {
	stay, taken := make([]*change, len(limits)), make([]bool, len(had))
	changes := make([]*change, 0, len(limits)*len(had))
	for _, l := range limits {
		for _, limiter := range had {
			changes = append(changes, l.changeOf(limiter))
		}
	}
	for _, exact := range []bool{true, false} {
		for i, c := range changes {
			limit, at := i/len(had), i%len(had)
			if c != nil && stay[limit] == nil && !taken[at] && (c.none || !exact) {
				stay[limit], taken[at] = c, true
			}
		}
	}
	return stay
}

// anyClosed returns [core.ErrClosed] if one of the limiters of a chain is closed.
func anyClosed(parts []core.Limiter) error {
	if len(parts) == 1 {
		return nil // it is the limiter itself
	}
	for _, p := range parts {
		if err := closed(p); err != nil {
			return err
		}
	}
	return nil
}

// together returns a limiter of the parts.
func together(parts []core.Limiter) (core.Limiter, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	return core.Chain(parts...)
}
