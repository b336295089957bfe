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

	planning = "retry after counts the queue ahead" // a ledger of windows plans no further than the current window

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
				// A ledger lets all requests wait, and takes back the count of a grant that came too late.
				"a hopeless deadline is rejected immediately", "counts only grow",
			})
			limitertest.Run(t, c.claim)
		})
	}
}

func TestALedgerInRealTimeConforms(t *testing.T) {
	limitertest.Run(t, limitertest.Config{
		New: ledgers(byRelease, ledgerFaults{}), Limit: limit, QueueLimit: queue, Update: updateLedger, RealTime: true,
	})
}

// Ledgers with one fault each.
var brokenSettlers = []broken{
	{"a settled lease replaces the first", "returns the first", ledgerOfSlots, ledgers(byRelease, ledgerFaults{keepsNumber: true})},
	{"a settled lease replaces the first", "loses its metadata", ledgerOfSlots, ledgers(byRelease, ledgerFaults{losesMetadata: true})},
	{"a settled lease replaces the first", "returns nothing", ledgerOfTokens, ledgers(byTokens, ledgerFaults{givesNothing: true})},
	{"a settled lease replaces the first", "counts the whole lease", ledgerOfTokens, ledgers(byTokens, ledgerFaults{givesLate: true})},
	{"a refund undoes the grant", "counts the whole lease", ledgerOfWindows, ledgers(byWindow, ledgerFaults{givesLate: true})},
	{"a refund undoes the grant", "returns it again", ledgerOfSlots, ledgers(byRelease, ledgerFaults{takesTwice: true})},
	{"a settled lease replaces the first", "wakes no waiter", ledgerOfTokens, ledgers(byTokens, ledgerFaults{wakesNoWaiter: true})},
	{"a settled lease replaces the first", "waits until there is more", ledgerOfTokens, ledgers(byTokens, ledgerFaults{waitsForMore: true})},
	{"a settled lease replaces the first", "takes nothing", ledgerOfSlots, ledgers(byRelease, ledgerFaults{takesNothing: true})},
	{"a debt is paid before a waiter is served", "forgives what is not there", ledgerOfSlots, ledgers(byRelease, ledgerFaults{forgivesDebt: true})},
	{"a debt is paid before a waiter is served", "forgives what is not there", ledgerOfWindows, ledgers(byWindow, ledgerFaults{forgivesDebt: true})},
	{"a debt is paid before a waiter is served", "serves a waiter", ledgerOfSlots, ledgers(byRelease, ledgerFaults{servesInDebt: true})},
	{"retry after counts the debt", "counts from empty", ledgerOfTokens, ledgers(byTokens, ledgerFaults{concealsDebt: true})},
	{"a debt is paid before a waiter is served", "forgives what is not there", ledgerOfTokens, ledgers(byTokens, ledgerFaults{forgivesDebt: true})},
	{"a debt is paid before a waiter is served", "wraps around", ledgerOfSlots, ledgers(byRelease, ledgerFaults{overflows: true})},
	{"statistics add up", "counts as a grant", ledgerOfSlots, ledgers(byRelease, ledgerFaults{counts: true})},
	{"a settled lease replaces the first", "returns it again", ledgerOfSlots, ledgers(byRelease, ledgerFaults{takesTwice: true})},
	{"a lease is released once", "returns it each time", ledgerOfSlots, ledgers(byRelease, ledgerFaults{takesTwice: true})},
	{"a lease is settled once", "looks before it leaps", ledgerOfSlots, ledgers(byRelease, ledgerFaults{looksFirst: true})},
	{"only a live grant can be settled", "takes any lease for its own", ledgerOfSlots, ledgers(byRelease, ledgerFaults{takesOthers: true})},
	{"a settled lease replaces the first", "does nothing", ledgerOfSlots, ledgers(byRelease, ledgerFaults{endsWithClose: true})},
	{"a debt is paid before a waiter is served", "forgets it in an update", ledgerOfSlots, ledgers(byRelease, ledgerFaults{updatePaysDebt: true})},
	{"an update keeps a debt", "forgets it", ledgerOfTokens, ledgers(byTokens, ledgerFaults{updatePaysDebt: true})},
	{"a reset restores all permits", "leaves the debt", ledgerOfTokens, ledgers(byTokens, ledgerFaults{resetKeepsDebt: true})},
	{"statistics add up", "clears the counts in a reset", ledgerOfTokens, ledgers(byTokens, ledgerFaults{resetForgetsAll: true})},
	{"a reset restores all permits", "remembers old leases", ledgerOfWindows, ledgers(byWindow, ledgerFaults{resetKeepsOld: true})},
	{"a reset restores all permits", "wakes no waiter", ledgerOfTokens, ledgers(byTokens, ledgerFaults{resetWakesNone: true})},
}
