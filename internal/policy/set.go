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
type Set[R any] struct {
	// Package begins errors, and the messages to the Logger.
	Package string

	// DeadlineCancels is true if the deadline of a request's context is its client's: a wait that
	// it ends is canceled. Otherwise it is rejected.
	DeadlineCancels bool

	log      recentLog // one for all options that the server has had
	snapshot atomic.Pointer[Snapshot[R]]

	mu   sync.Mutex      // guards used, and that no name goes while a handler is being built
	used map[string]bool // the names that must stay
}

// Options are what an Update of a Set replaces.
type Options[R any] struct {
	Global   *Policy[R]  // found by the name "" instead of its own; nil: there is none
	Policies []Policy[R] // found by their names, which differ
	Skip     func(R) bool
	Observer Observer     // nil: none
	Logger   *slog.Logger // nil: silent
	Own      any          // the package's own options
}

// Snapshot is the options in force at some instant. It does not change.
type Snapshot[R any] struct {
	Options[R]

	set    *Set[R]
	global []*Policy[R]            // the one, or none
	named  map[string][]*Policy[R] // one each
	all    []*Policy[R]            // of Options.Policies
}

// every is the name by which all of Options.Policies are found: no policy can have it.
var every = []string{"*"}

// Load returns the options in force; nil before the first Update.
func (s *Set[R]) Load() *Snapshot[R] { return s.snapshot.Load() }

// Update replaces all options, unless invalid is an error or a name that is in use is missing: then it
// returns an error that reports all of this, and nothing has changed.
func (s *Set[R]) Update(o Options[R], invalid error) error {
	next := &Snapshot[R]{Options: o, set: s, named: make(map[string][]*Policy[R])}
	if o.Global != nil {
		next.global = []*Policy[R]{o.Global}
	}
	for i := range o.Policies {
		p := &o.Policies[i]
		next.named[p.Name] = []*Policy[R]{p}
		next.all = append(next.all, p)
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

// Use makes the names stay. It panics if one is missing.
func (s *Set[R]) Use(names []string) {
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

// MustHave panics if there is no policy of one of the names.
func (s *Snapshot[R]) MustHave(names []string) {
	for _, name := range names {
		if s.named[name] == nil {
			panic(fmt.Sprintf("%s: no policy is named %q", s.set.Package, name))
		}
	}
}

// Limits reports whether a policy of these names is to decide about the request.
func (s *Snapshot[R]) Limits(r R, names []string) bool {
	for _, name := range names {
		if len(s.find(name)) > 0 {
			return s.Skip == nil || !s.Skip(r)
		}
	}
	return false
}

// find returns the policies of that name; for "" the global one.
func (s *Snapshot[R]) find(name string) []*Policy[R] {
	switch name {
	case "":
		return s.global
	case every[0]:
		return s.all
	}
	return s.named[name]
}
