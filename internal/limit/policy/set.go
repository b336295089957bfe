package policy

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Set is the policies of a server. Its fields are set before its first Update; its methods are safe for
// concurrent use.
type Set[R, O any] struct {
	// Package is the prefix of errors and log messages.
	Package string

	// DeadlineCancels is true if the deadline of a request's context comes from its client: a wait that the deadline
	// ends is then canceled. Otherwise it is rejected.
	DeadlineCancels bool

	log      recentLog // shared by all snapshots
	snapshot atomic.Pointer[Snapshot[R, O]]

	mu   sync.Mutex      // guards used; held while a handler is built, so that no Update removes its policies
	used map[string]bool // the names that must stay
}

// Options are replaced by an Update of a Set.
type Options[R, O any] struct {
	Global   *Policy[R, O]  // nil if there is none; its name in Admit is Global
	Policies []Policy[R, O] // with unique names
	Skip     func(R) bool
	Observer Observer     // nil if there is none
	Logger   *slog.Logger // nil means silent
}

// Snapshot is the options that were current at some time. It does not change.
type Snapshot[R, O any] struct {
	Options[R, O]

	set   *Set[R, O]
	named map[string][]*Policy[R, O] // one per name; the global one is Global, and all others together are everyName
}

// Global is the name of the global policy. Names of policies are not empty.
const Global = ""

// everyName finds all of Options.Policies. Names of policies have no asterisk.
const everyName = "*"

var all = []string{everyName}

// Load returns the current options, or nil before the first Update.
func (s *Set[R, O]) Load() *Snapshot[R, O] { return s.snapshot.Load() }

// Update replaces all options. If invalid is an error, or a name that is in use is missing, Update returns an error
// that reports both, and changes nothing.
func (s *Set[R, O]) Update(o Options[R, O], invalid error) error {
	if o.Global == nil && len(o.Policies) == 0 {
		invalid = errors.Join(invalid, fmt.Errorf("%s: Options has no policy, want at least one", s.Package))
	}
	next := &Snapshot[R, O]{Options: o, set: s, named: make(map[string][]*Policy[R, O])}
	if o.Global != nil {
		next.named[Global] = []*Policy[R, O]{o.Global}
	}
	for i := range o.Policies {
		p := &o.Policies[i]
		next.named[p.Name] = []*Policy[R, O]{p}
		next.named[everyName] = append(next.named[everyName], p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := []error{invalid}
	for name := range s.used {
		if next.named[name] == nil {
			errs = append(errs, fmt.Errorf("%s: Options.Policies has no %q, want one, since a handler uses it", s.Package, name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.snapshot.Store(next)
	return nil
}

// Use keeps later Updates from removing the policies with these names. It panics if one is missing.
func (s *Set[R, O]) Use(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Load().MustHave(names)
	if s.used == nil {
		s.used = make(map[string]bool)
	}
	for _, name := range names {
		s.used[name] = true
	}
}

// MustHave panics unless there is a policy for each of the names.
func (s *Snapshot[R, O]) MustHave(names []string) {
	for _, name := range names {
		if s == nil {
			panic(fmt.Sprintf("no policy is named %q, because there are no policies", name))
		}
		if !validName(name) || s.named[name] == nil {
			panic(fmt.Sprintf("%s: no policy is named %q", s.set.Package, name))
		}
	}
}

// Applies reports whether the policies with these names limit the request: it is not skipped, and at least one exists.
func (s *Snapshot[R, O]) Applies(r R, names []string) bool {
	for _, name := range names {
		if s.named[name] != nil {
			return s.Skip == nil || !s.Skip(r)
		}
	}
	return false
}
