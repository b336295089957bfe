package limitertest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// NoQueue is the [Config].QueueLimit of a limiter in which no request may wait.
const NoQueue = 0

// Config describes the limiter under test. New and Limit are required. The rules check the limiter
// against the other fields: set QueueLimit if requests may wait, and Refill if permits come back
// with time.
type Config struct {
	// New returns a new limiter with all its permits available. It is called several times,
	// each time in the bubble in which the limiter is used, and must not return the same
	// limiter twice. Required.
	New func() core.Limiter

	// Done is called once for each limiter that New returned, in the same bubble, after its
	// rule has ended and the limiter, if it is an io.Closer, has been closed. For example, it
	// stops a server that New started. It may be called while the test is failing, with a
	// limiter in any state. It may be nil.
	Done func(core.Limiter)

	// Limit is the permit limit, at least 1. Required. If it is math.MaxInt, the limiter grants
	// everything, and the rules about an exhausted limiter are skipped unless Gate is set.
	Limit int

	// Gate makes a limiter whose Limit is math.MaxInt reject everything (open is false) or
	// grant everything again (open is true), for a limiter that sheds load. The change must have
	// taken effect when Gate returns; Gate may let time pass. A new limiter is open. If Gate is
	// nil, the limiter never rejects.
	Gate func(l core.Limiter, open bool)

	// QueueLimit is the number of permits that may wait. 0, which is [NoQueue], means that there is
	// no queue, and math.MaxInt that it is unbounded.
	QueueLimit int

	// QueueOrder is the order in which waiters are served. A limiter with a method QueueOrder must
	// report it. For [core.FairShare], rules about flows check that the limiter keeps it.
	QueueOrder core.QueueOrder

	// Update changes the permit limit of a limiter in use, and nothing else, and returns what
	// the limiter's own method returns. If Update is nil, the limit cannot be changed.
	Update func(l core.Limiter, limit int) error

	// Refill is the time until all permits are back after all were taken from a new limiter at
	// once: exactly that long then, and at most that long after any other use. For a bucket it
	// is the period times limit/tokens, rounded up to whole periods; for a window it is the
	// window's length, unless the grid has an anchor. 0 means that permits do not come back with
	// time; Manual and Holds are then ignored.
	Refill time.Duration

	// Manual reports whether permits come back only in TryReplenish, when they are due.
	Manual bool

	// Holds reports whether permits stay taken until the lease is released, however much time
	// passes. They always do without Refill; with Refill, the limiter is a chain of a rate
	// limiter and a concurrency limiter.
	Holds bool

	// Grain is the precision of the limiter's clock, and of the times it reports: a server
	// may count in microseconds. Permits may be back up to one Grain before they are due, and
	// never after. 0 means one nanosecond.
	Grain time.Duration

	// Lag is how old Statistics().Available and the result of IdleFor may be, for a limiter
	// that asks a server and remembers the answer. Rules wait that long before they look, so it
	// must be less than the time until the first permits come back. Available, and the counts
	// in Statistics, must always be up to date. 0 means that nothing is out of date.
	Lag time.Duration

	// Lacks is the set of optional interfaces that are not checked although the limiter has
	// their methods. A view may have methods that do nothing because the limiter behind it
	// lacks them.
	Lacks Interfaces

	// Roams reports whether a limiter may be made in one bubble, or outside any, and used in
	// another, where the clock is years behind. New is then called outside a bubble for one
	// rule. A limiter with connections, goroutines or timers of its own cannot roam.
	Roams bool

	// RealTime runs all rules outside a bubble, for a limiter that needs a real network. Rules
	// about exact times and about waiting are skipped, and no permit may come back with time
	// while a rule runs: make Refill an hour, for example.
	RealTime bool

	// Skip names rules that are not checked, by the names of their subtests. An unknown name
	// fails the test. A chain keeps all rules if only its first limiter ever makes a caller
	// wait while the others have permits. Otherwise callers that leave one queue reach the next
	// in any order, and a rejection knows only one limiter.
	Skip []string
}

// validate returns an error that lists all invalid fields.
func (c Config) validate() error {
	var errs []error
	invalid := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("limitertest: Config.%s = %v, want %s", field, value, want))
	}
	if c.New == nil {
		invalid("New", nil, "a function")
	}
	if c.Limit < 1 {
		invalid("Limit", c.Limit, "at least 1")
	}
	if c.QueueLimit < 0 {
		invalid("QueueLimit", c.QueueLimit, "at least 0")
	}
	if c.QueueOrder > core.FairShare {
		invalid("QueueOrder", c.QueueOrder, "oldest-first, newest-first or fair-share")
	}
	if c.Gate != nil && c.Limit != math.MaxInt {
		invalid("Limit", c.Limit, "math.MaxInt where there is a Gate")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Refill", c.Refill}, {"Grain", c.Grain}, {"Lag", c.Lag}} {
		if d.value < 0 {
			invalid(d.field, d.value, "at least 0")
		}
	}
	if c.Lacks >= unknownInterfaces {
		invalid("Lacks", fmt.Sprintf("%#b", uint16(c.Lacks)), "interfaces that there are")
	}
	for _, name := range c.Skip {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) {
			invalid("Skip", fmt.Sprintf("%q", name), "names of rules")
		}
	}
	return errors.Join(errs...)
}

// facts is everything that the rules need to know: the Config, the interfaces that a new limiter
// implements, and the results of the plays.
type facts struct {
	Config
	offers Interfaces // but for those in Lacks
	cores  bool       // the limiters of package core decide
	played []ruleError
	met    map[string]bool // rules that the plays were about
}

// facts makes a limiter, and runs the plays if that works.
func (c Config) facts(t *testing.T) (*facts, []ruleError) {
	t.Helper()
	f := &facts{Config: c, met: map[string]bool{}}
	f.Manual = c.Manual && c.Refill > 0
	f.Holds = c.Holds || c.Refill == 0
	r := rule{name: "config", check: func(s *subject) {
		f.offers = interfacesOf(s.l) &^ f.Lacks
		f.cores = !slices.ContainsFunc(backdoor.Core[core.Lease]().Roots(s.l), func(root any) bool { return !isCores(root) })
	}}
	errs := r.errors(t, f)
	if len(errs) == 0 {
		f.play(t)
	}
	return f, errs
}

// isCores reports whether a limiter is one of package core's.
func isCores(limiter any) bool {
	switch limiter.(type) {
	case *core.ConcurrencyLimiter, *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow:
		return true
	}
	return false
}

// is reports whether the limiters have all of the interfaces.
func (f *facts) is(all Interfaces) bool { return f.offers&all == all }

func (f *facts) unlimited() bool { return f.Limit == math.MaxInt }

// grain returns how exact instants are, at least 1 ns.
func (f *facts) grain() time.Duration { return max(f.Grain, 1) }

// piece returns the permits of a request of which no more than three fit into the limit, so that a refill,
// which may bring almost twice the limit, does not serve all of a flow.
func (f *facts) piece() int { return (f.Limit-1)/3 + 1 }

// unbounded reports whether the queue is too long to be filled.
func (f *facts) unbounded() bool { return f.QueueLimit/f.Limit >= maxWaiters }

// maxWaiters is how many waiters a rule makes at most.
const maxWaiters = 250
