package limitertest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// NoQueue as [Config].QueueLimit says that nobody may wait.
const NoQueue = -1

// Config says what the limiter under test promises. New and Limit are required. What is
// left out of the rest is found out by asking a limiter; what is said is checked, so say
// it if you know it.
type Config struct {
	// New returns a new limiter with all its permits available, each time another. It is
	// called in the bubble in which the limiter is used, several times.
	New func() core.Limiter

	// Limit is the permit limit, at least 1. math.MaxInt: the limiter grants everything,
	// and the rules about having nothing do not apply.
	Limit int

	// QueueLimit is how many permits may wait: [NoQueue] for none, math.MaxInt for no
	// bound. 0: it is found out, and QueueOrder with it; QueueOrder is then ignored.
	QueueLimit int

	// QueueOrder is who is served first.
	QueueOrder core.QueueOrder

	// Refill is the time after which all permits have come back, and not earlier, if all
	// were taken at once from a new limiter; at least as soon if they were taken in any
	// other way. A bucket's is its period times limit/tokens, rounded up; a window's is its
	// length, unless its grid is anchored elsewhere. 0: permits do not come back with time.
	// If it is 0, Manual and Holds are ignored, and all three are found out.
	Refill time.Duration

	// Manual says that what is due comes back in TryReplenish only.
	Manual bool

	// Holds says that permits stay taken, whatever the time, until the lease is released.
	// Without Refill that is so anyway; with it, the limiter is a chain of both kinds.
	Holds bool

	// RealTime is for limiters that cannot live in a bubble, because they speak to a server,
	// say. The rules that need exact instants, or to know that somebody waits, are
	// skipped; nothing is found out; and no permit may come back with time while a rule
	// runs, so let Refill be an hour.
	RealTime bool

	// Skip names rules that this limiter does not keep, as the subtests name them. A name
	// that is none fails the test. A chain keeps all rules if but one of its limiters, the
	// first, can make somebody wait while the others have permits: who has passed one
	// queue arrives at the next in any order, and a rejection says what one limiter knows.
	Skip []string
}

// validate reports what is wrong with the config, all at once.
func (c Config) validate() error {
	var errs []error
	fault := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("limitertest: Config.%s = %v, want %s", field, value, want))
	}
	if c.New == nil {
		fault("New", nil, "a function")
	}
	if c.Limit < 1 {
		fault("Limit", c.Limit, "at least 1")
	}
	if c.QueueLimit < NoQueue {
		fault("QueueLimit", c.QueueLimit, "at least -1")
	}
	if c.QueueOrder > core.NewestFirst {
		fault("QueueOrder", c.QueueOrder, "oldest-first or newest-first")
	}
	if c.Refill < 0 {
		fault("Refill", c.Refill, "at least 0")
	}
	for _, name := range c.Skip {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) {
			fault("Skip", fmt.Sprintf("%q", name), "names of rules")
		}
	}
	return errors.Join(errs...)
}

// facts is all that the rules want to know: what Config says, what was found out, and
// what a new limiter implements.
type facts struct {
	Config
	queue int // permits that may wait
	offers
}

// offers is what a limiter is beside the interface.
type offers struct {
	reporter, idler, refunder, replenisher, closer bool
}

func offersOf(l core.Limiter) offers {
	var o offers
	_, o.reporter = l.(core.Reporter)
	_, o.idler = l.(core.Idler)
	_, o.refunder = l.(core.Refunder)
	_, o.closer = l.(io.Closer)
	// A chain is a Replenisher with a period of 0 if nothing in it replenishes.
	r, ok := l.(core.Replenisher)
	o.replenisher = ok && r.ReplenishmentPeriod() > 0
	return o
}

func (f *facts) unlimited() bool { return f.Limit == math.MaxInt }

// unbounded reports whether the queue is too long to be filled.
func (f *facts) unbounded() bool { return f.queue/f.Limit >= maxWaiters }

// maxWaiters is how many waiters a rule makes at most.
const maxWaiters = 250
