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

	// Done is called with each limiter that New made, once its rule is done with it and it
	// has been closed if it can be, in the same bubble: to stop the server it speaks to, say.
	// nil: there is nothing to do. It may be called while a test is failing, and must not
	// expect the limiter to be in good order.
	Done func(core.Limiter)

	// Limit is the permit limit, at least 1. math.MaxInt: the limiter grants everything,
	// and the rules about having nothing do not apply, unless there is a Gate.
	Limit int

	// Gate is for a limiter whose Limit is math.MaxInt that refuses at times nonetheless,
	// as one that sheds load does. It shuts the limiter, so that nothing is available, or
	// opens it again. When it returns that is in force; it may let time pass. A new limiter
	// is open.
	Gate func(l core.Limiter, open bool)

	// QueueLimit is how many permits may wait: [NoQueue] for none, math.MaxInt for no
	// bound. 0: it is found out, and QueueOrder with it; QueueOrder is then ignored.
	QueueLimit int

	// QueueOrder is who is served first.
	QueueOrder core.QueueOrder

	// Update puts another limit in force, the rest of its options unchanged, where a limiter
	// can be updated while it runs; it returns what the limiter's own method returns. nil: the
	// limiter can't.
	Update func(l core.Limiter, limit int) error

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

	// Grain is how exact the limiter's instants are, and those of what it says of time: a
	// server's clock may count in microseconds. 0: to the nanosecond. What is due is there
	// when it is due, and may be there less than a Grain earlier.
	Grain time.Duration

	// Lag is how old Statistics().Available, and what IdleFor says, may be: a limiter that
	// must ask a server may remember what it was told. The rules let so much time pass before
	// they look, so Lag must be less than the time in which the first permits come back. 0:
	// they are never out of date. Available itself, and the counts, must always be right.
	Lag time.Duration

	// Lacks names interfaces that the limiter implements in form alone, as a view does that
	// has all the methods whatever it is a view of. They are not looked at.
	Lacks Interfaces

	// Roams says that the limiter may be made in one bubble, or outside all, and used in
	// another, where the clock is years behind: New is called outside for the rule that
	// checks it. A limiter with connections, goroutines or timers of its own can't.
	Roams bool

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
	if c.Gate != nil && c.Limit != math.MaxInt {
		fault("Limit", c.Limit, "math.MaxInt where there is a Gate")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"Refill", c.Refill}, {"Grain", c.Grain}, {"Lag", c.Lag}} {
		if d.value < 0 {
			fault(d.field, d.value, "at least 0")
		}
	}
	if c.Lacks >= 1<<interfaces {
		fault("Lacks", fmt.Sprintf("%#b", uint8(c.Lacks)), "interfaces that there are")
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

// Interfaces is a set of what a limiter may be beside a core.Limiter.
type Interfaces uint8

// The interfaces that a limiter may implement.
const (
	Reporter    Interfaces = 1 << iota // core.Reporter
	Idler                              // core.Idler
	Refunder                           // core.Refunder
	Replenisher                        // core.Replenisher
	Closer                             // io.Closer
	Settler                            // core.Settler
	Resetter                           // core.Resetter

	interfaces = iota // how many there are
)

// offers is what a limiter is beside the interface.
type offers struct {
	reporter, idler, refunder, replenisher, closer, settler, resetter bool
}

// offersOf returns what the limiter is, but for what it is in form alone.
func offersOf(l core.Limiter, lacks Interfaces) offers {
	var o offers
	_, o.reporter = l.(core.Reporter)
	_, o.idler = l.(core.Idler)
	_, o.refunder = l.(core.Refunder)
	_, o.closer = l.(io.Closer)
	_, o.settler = l.(core.Settler)
	_, o.resetter = l.(core.Resetter)
	// A chain is a Replenisher with a period of 0 if nothing in it replenishes.
	r, ok := l.(core.Replenisher)
	o.replenisher = ok && lacks&Replenisher == 0 && r.ReplenishmentPeriod() > 0
	o.reporter = o.reporter && lacks&Reporter == 0
	o.idler = o.idler && lacks&Idler == 0
	o.refunder = o.refunder && lacks&Refunder == 0
	o.closer = o.closer && lacks&Closer == 0
	o.settler = o.settler && lacks&Settler == 0
	o.resetter = o.resetter && lacks&Resetter == 0
	return o
}

func (f *facts) unlimited() bool { return f.Limit == math.MaxInt }

// grain returns how exact instants are, at least 1 ns.
func (f *facts) grain() time.Duration { return max(f.Grain, 1) }

// unbounded reports whether the queue is too long to be filled.
func (f *facts) unbounded() bool { return f.queue/f.Limit >= maxWaiters }

// maxWaiters is how many waiters a rule makes at most.
const maxWaiters = 250
