package limitertest

import "github.com/sluice-go/sluice/core"

// The rules that the plays are about.
const (
	ruleZero      = "a zero-permit request takes nothing"
	ruleQueue     = "the queue counts permits"
	ruleOrder     = "the queue is served in order"
	ruleCancel    = "a canceled waiter keeps nothing"
	ruleRelease   = "a lease is released once"
	ruleRefund    = "a refund undoes the grant"
	ruleSettle    = "a settled lease replaces the first"
	ruleDebt      = "a debt is paid before a waiter is served"
	ruleReserve   = "a reservation is served in its turn"
	ruleReset     = "a reset restores all permits"
	ruleErrors    = "errors agree with their leases"
	ruleCounts    = "statistics add up"
	ruleAvailable = "available is what can be taken"
	ruleUpdate    = "an update keeps what is taken"
	ruleClose     = "close refuses from then on"
)

// rules are all rules, in the order in which they are reported. The plays notice a limiter that
// breaks a rule without a check.
var rules = []rule{
	{name: "checks come in order"},
	{name: "more than the limit is refused for good"},
	{name: ruleAvailable},
	{name: ruleZero},

	{name: ruleQueue},
	{name: ruleOrder},
	{"the order is the one that the limiter reports", needs{queued}, orderIsSaid},
	{"flows get their shares", needs{bubble, finite, fair}, flowsGetShares},
	{"a higher priority is served first", needs{bubble, finite, fair}, prioritiesComeFirst},
	{"a done context ends the wait", needs{bubble, drains, queued}, contextEndsWait},
	{name: ruleCancel},
	{"either the grant or the cancellation wins", needs{bubble, finite, queued, held}, grantOrCancel},

	{"retry after is exact", needs{bubble, finite, automatic}, retryAfterExact},
	{"retry after counts the queue ahead", needs{bubble, finite, automatic, queued}, retryAfterQueue},
	{"retry after counts the debt", needs{bubble, finite, automatic, has(Settler)}, retryAfterDebt},
	{name: "retry after is set only where time helps"},
	{"a hopeless deadline is rejected immediately", needs{bubble, finite, automatic, queued}, hopelessDeadline},
	{"a waiter is served on time", needs{bubble, finite, automatic, queued}, servedOnTime},
	{"automatic replenishment", needs{bubble, finite, automatic}, automaticReplenishment},
	{"manual replenishment", needs{bubble, finite, manual}, manualReplenishment},
	{"idle time earns no credit", needs{bubble, finite}, idleEarnsNothing},
	{"idle is when every permit is available", needs{has(Idler)}, idleFor},

	{name: ruleRelease},
	{name: ruleRefund},
	{name: ruleSettle},
	{"a lease is settled once", needs{finite, held, has(Settler)}, settledOnce},
	{name: "only a live grant can be settled"},
	{name: ruleDebt},
	{"an update keeps a debt", needs{bubble, finite, automatic, updates, has(Settler)}, updateKeepsDebt},
	{name: ruleReset},

	{name: ruleReserve},
	{name: "a reservation is refunded once"},

	{"a switch takes its waiters out", needs{bubble, drains, queued}, switchTakesOut},
	{"a switch keeps its waiters in order", needs{bubble, finite, pair, queued, oldest, beyond, cores}, switchKeepsOrder},

	{name: "metadata is well-formed"},
	{name: "reason phrases are those of core"},
	{name: ruleErrors},
	{name: ruleCounts},
	{"counts only grow", needs{bubble, finite, has(Reporter)}, countsOnlyGrow},
	{"concurrent callers get no more than there is", needs{finite}, manyAtOnce},
	{"no more is held than the limit", needs{finite, held}, neverMoreHeld},
	{"a release synchronizes before the grant it unblocks", needs{finite, held, long}, releaseComesBefore},

	{name: ruleUpdate},
	{name: "a bad update changes nothing"},
	{roaming, needs{bubble, finite, roams}, clockGoesBack},

	{name: ruleClose},
}

// roaming is the rule whose first limiter is made outside the bubble.
const roaming = "a clock that goes back delays no request"

// needs are the conditions under which a rule applies: each returns "", or why the rule does not apply.
type needs []func(*facts) string

// unmet returns the first reason why a rule does not apply, "" if it does.
func (n needs) unmet(f *facts) string {
	for _, need := range n {
		if why := need(f); why != "" {
			return why
		}
	}
	return ""
}

// need returns a condition, and why a rule does not apply without it.
func need(otherwise string, met func(f *facts) bool) func(*facts) string {
	return func(f *facts) string {
		if met(f) {
			return ""
		}
		return otherwise
	}
}

var (
	bubble    = need("needs a bubble, and the limiter can't live in one", func(f *facts) bool { return !f.RealTime })
	finite    = need("the limiter is unlimited", func(f *facts) bool { return !f.unlimited() })
	drains    = need("the limiter is unlimited", func(f *facts) bool { return !f.unlimited() || f.Gate != nil })
	pair      = need("needs a limit of 2 at least", func(f *facts) bool { return f.Limit >= 2 })
	queued    = need("the limiter has no queue", func(f *facts) bool { return f.QueueLimit > 0 })
	long      = need("needs a queue of the limit at least", func(f *facts) bool { return f.QueueLimit >= f.Limit })
	beyond    = need("needs a queue above the limit", func(f *facts) bool { return f.QueueLimit > f.Limit })
	oldest    = need("the limiter serves the newest first", func(f *facts) bool { return f.QueueOrder != core.NewestFirst })
	automatic = need("permits do not come back by themselves", func(f *facts) bool { return f.Refill > 0 && !f.Manual })
	manual    = need("the limiter is not replenished by hand", func(f *facts) bool { return f.Manual })
	updates   = need("there is no Config.Update", func(f *facts) bool { return f.Update != nil })
	cores     = need("the limiter is not one of package core, nor a view of one", func(f *facts) bool { return f.cores })
	roams     = need("Config.Roams is not set", func(f *facts) bool { return f.Roams })
	held      = need("leases hold nothing, or what they hold comes back in real time", func(f *facts) bool {
		return f.Holds && (!f.RealTime || f.Refill == 0)
	})
	fair = need("the order is not fair-share, or the queue is too short to tell", func(f *facts) bool {
		return f.QueueOrder == core.FairShare && f.QueueLimit/f.piece() >= 2
	})
)

// has returns the condition that the limiter has the optional interfaces.
func has(all Interfaces) func(*facts) string {
	return func(f *facts) string {
		for _, i := range optional {
			if all&i.Interfaces&^f.offers != 0 {
				return "the limiter is no " + i.name
			}
		}
		return ""
	}
}
