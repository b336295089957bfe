package limitertest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

// How the permits of the references come back, and the claims about them.
var (
	byRelease = comesBack{}
	byTokens  = comesBack{period: 6 * time.Second}
	byWindow  = comesBack{period: time.Minute, all: true}

	planning = "retry after in a queue" // a ledger of windows plans no further than the current window

	ledgerOfSlots   = limitertest.Config{Limit: limit, QueueLimit: queue, Update: updateLedger}
	ledgerOfTokens  = limitertest.Config{Limit: limit, QueueLimit: queue, Refill: 30 * time.Second, Update: updateLedger}
	ledgerOfWindows = limitertest.Config{Limit: limit, QueueLimit: queue, Refill: time.Minute, Update: updateLedger, Skip: []string{planning}}
)

func updateLedger(l core.Limiter, limit int) error {
	switch l := l.(type) {
	case rateLedger:
		return l.update(limit)
	case *ledger:
		return l.update(limit)
	}
	return nil
}

// ledgers returns a maker of ledgers, with faults or without.
func ledgers(back comesBack, faults ledgerFaults) func() core.Limiter {
	return func() core.Limiter {
		l := newLedger(back, queue, faults)
		if back.period > 0 {
			return rateLedger{l}
		}
		return l
	}
}

// A plain limiter that does the arithmetic keeps the rules.
func TestLedgersConform(t *testing.T) {
	for name, c := range map[string]struct {
		back  comesBack
		claim limitertest.Config
	}{
		"slots":  {byRelease, ledgerOfSlots},
		"tokens": {byTokens, ledgerOfTokens},
		"window": {byWindow, ledgerOfWindows},
	} {
		t.Run(name, func(t *testing.T) {
			c.claim.New = ledgers(c.back, ledgerFaults{})
			c.claim.Skip = slices.Concat(c.claim.Skip, []string{
				"deadlines", // a ledger lets all requests wait
			})
			limitertest.Run(t, c.claim)
		})
	}
}

// Ledgers with one fault each.
var brokenSettlers = []broken{
	{"settlements", "returns nothing", ledgerOfTokens, ledgers(byTokens, ledgerFaults{givesNothing: true})},
	{"settlements", "counts the whole lease", ledgerOfTokens, ledgers(byTokens, ledgerFaults{givesLate: true})},
	{"refunds", "counts the whole lease", ledgerOfWindows, ledgers(byWindow, ledgerFaults{givesLate: true})},
	{"settlements", "wakes no waiter", ledgerOfTokens, ledgers(byTokens, ledgerFaults{wakesNoWaiter: true})},
	{"settlements", "waits until there is more", ledgerOfTokens, ledgers(byTokens, ledgerFaults{waitsForMore: true})},
	{"settlements", "takes nothing", ledgerOfSlots, ledgers(byRelease, ledgerFaults{takesNothing: true})},
	{"settlements", "forgives what is not there", ledgerOfSlots, ledgers(byRelease, ledgerFaults{forgivesDebt: true})},
	{"settlements", "forgives what is not there", ledgerOfWindows, ledgers(byWindow, ledgerFaults{forgivesDebt: true})},
	{"settlements", "serves a waiter", ledgerOfSlots, ledgers(byRelease, ledgerFaults{servesInDebt: true})},
	{"retry after", "counts from empty", ledgerOfTokens, ledgers(byTokens, ledgerFaults{concealsDebt: true})},
	{"settlements", "forgives what is not there", ledgerOfTokens, ledgers(byTokens, ledgerFaults{forgivesDebt: true})},
	{"settlements", "wraps around", ledgerOfSlots, ledgers(byRelease, ledgerFaults{overflows: true})},
	{"settlements", "counts as a grant", ledgerOfSlots, ledgers(byRelease, ledgerFaults{counts: true})},
	{"settlements", "does nothing", ledgerOfSlots, ledgers(byRelease, ledgerFaults{endsWithClose: true})},
	{"updates", "forgets it in an update", ledgerOfSlots, ledgers(byRelease, ledgerFaults{updatePaysDebt: true})},
	{"updates", "forgets it", ledgerOfTokens, ledgers(byTokens, ledgerFaults{updatePaysDebt: true})},
	{"resets", "leaves the debt", ledgerOfTokens, ledgers(byTokens, ledgerFaults{resetKeepsDebt: true})},
	{"resets", "clears the counts in a reset", ledgerOfTokens, ledgers(byTokens, ledgerFaults{resetForgetsAll: true})},
	{"resets", "remembers old leases", ledgerOfWindows, ledgers(byWindow, ledgerFaults{resetKeepsOld: true})},
	{"resets", "wakes no waiter", ledgerOfTokens, ledgers(byTokens, ledgerFaults{resetWakesNone: true})},
}
