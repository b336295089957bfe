package limitertest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/invalid"
)

// NoQueue is the [Config].QueueLimit of a limiter in which no request may wait.
const NoQueue = 0

// Config describes the limiter under test. New and Limit are required. The rules check the limiter
// against the other fields: set QueueLimit if requests may wait, and Refill if permits are returned
// with time.
type Config struct {
	// New returns a new limiter with all its permits available. It is called several times,
	// each time in the bubble in which the limiter is used, and must not return the same
	// limiter twice. Required.
	New func() core.Limiter

	// Limit is the permit limit, at least 1. Required. If it is math.MaxInt, the limiter grants
	// everything, and the rules about an exhausted limiter are skipped unless Gate is set.
	Limit int

	// QueueLimit is the number of permits that may wait. 0, which is [NoQueue], means that there is
	// no queue, and math.MaxInt that it is unbounded.
	QueueLimit int

	// QueueOrder is the order in which waiters are served. A limiter with a method QueueOrder must
	// report it. For [core.FairShare], the subtest "flows" checks that the limiter keeps it.
	QueueOrder core.QueueOrder

	// Update changes the permit limit of a limiter in use, and nothing else, and returns what
	// the limiter's own method returns. If Update is nil, the limit cannot be changed.
	Update func(l core.Limiter, limit int) error

	// Refill is the time until all permits are back after all were taken from a new limiter at once: exactly that
	// long then, and at most that long after any other use. A limiter from which permits are taken as soon as they
	// are back may grant at most twice its limit in that time, in the long run. For a bucket it is the period times
	// limit/tokens, rounded up to whole periods; for a window it is the window's length, unless the grid has an
	// anchor. 0 means that permits are not returned with time; Manual and Holds are then ignored.
	Refill time.Duration

	// Manual reports whether permits are returned only in TryReplenish, when they are due.
	Manual bool

	// Holds reports whether permits stay taken until the lease is released, however much time
	// passes. They always do without Refill; with Refill, the limiter is a chain of a rate
	// limiter and a concurrency limiter.
	Holds bool

	// Skip names subtests that are not run. Calls that belong to a skipped subtest are not made in
	// other subtests either. An unknown name fails the test.
	//
	// For example, skip "queue" for a chain in which a later limiter may make callers wait: they can
	// reach it in any order. Skip an optional interface for a view whose methods do nothing because the
	// limiter below lacks them.
	Skip []string

	// Done is called once for each limiter that New returned, in the same bubble, after its
	// test has ended and the limiter, if it is an io.Closer, has been closed. For example, it
	// stops a server that New started. It may be called while the test is failing, with a
	// limiter in any state. It may be nil.
	Done func(core.Limiter)

	// The fields below are for limiters that shed load, and for servers with a clock of their own.

	// Gate makes a limiter whose Limit is math.MaxInt reject everything (open is false) or
	// grant everything again (open is true), for a limiter that sheds load. The change must have
	// taken effect when Gate returns; Gate may let time pass. A new limiter is open. If Gate is
	// nil, the limiter never rejects.
	Gate func(l core.Limiter, open bool)

	// Grain is the precision of the limiter's clock, and of the times it reports: a server
	// may count in microseconds. Permits may be back up to one Grain before they are due, and
	// never after. 0 means one nanosecond. With a Grain there are fewer plays, because a server is slow.
	// While requests wait for permits of a rate limiter with a Grain, Available may be 0, because the
	// server has promised what is there to those who wait.
	Grain time.Duration
}

// validate returns an error that lists all invalid fields. parts are the names of the subtests.
func (c Config) validate(parts []string) error {
	wrong := invalid.Fields{Prefix: "limitertest: Config."}
	if c.New == nil {
		wrong.Add("New", nil, "a function")
	}
	if c.Limit < 1 {
		wrong.Add("Limit", c.Limit, "at least 1")
	}
	if c.QueueLimit < 0 {
		wrong.Add("QueueLimit", c.QueueLimit, "at least 0")
	}
	if c.QueueOrder > core.FairShare {
		wrong.Add("QueueOrder", c.QueueOrder, "oldest-first, newest-first or fair-share")
	}
	if c.Gate != nil && c.Limit != math.MaxInt {
		wrong.Add("Limit", c.Limit, "math.MaxInt where there is a Gate")
	}
	if c.Refill < 0 {
		wrong.Add("Refill", c.Refill, "at least 0")
	}
	if c.Grain < 0 {
		wrong.Add("Grain", c.Grain, "at least 0")
	}
	for _, name := range c.Skip {
		if !slices.Contains(parts, name) {
			wrong.Add("Skip", fmt.Sprintf("%q", name), "names of subtests")
		}
	}
	return wrong.Err()
}

// normal returns the Config without fields that are ignored.
func (c Config) normal() Config {
	c.Manual = c.Manual && c.Refill > 0
	c.Holds = c.Holds || c.Refill == 0
	return c
}

func (c Config) unlimited() bool { return c.Limit == math.MaxInt }

// plays returns the number of plays of each part.
func (c Config) plays() uint64 {
	if c.Grain > 0 {
		return 2 // each call asks a server
	}
	return 12
}

// grain returns how exact times are, at least 1 ns.
func (c Config) grain() time.Duration { return max(c.Grain, 1) }

// piece returns the permits of a request of which no more than three fit into the limit, so that a refill,
// which may bring almost twice the limit, does not serve all of a flow.
func (c Config) piece() int { return (c.Limit-1)/3 + 1 }
