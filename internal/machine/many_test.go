package machine_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
)

// What is done under the caller's lock does not grow with the number of waiters.
func TestManyWaitersCostNothing(t *testing.T) {
	const n = 100_000
	second := int64(time.Second)
	for name, terms := range map[string]machine.Terms{
		"bucket":      {Kind: machine.TokenBucket, Limit: 10, Step: 5, Span: second, QueueLimit: 10 * n},
		"window":      {Kind: machine.Window, Limit: 10, Step: 3, Span: second, QueueLimit: 10 * n},
		"concurrency": {Kind: machine.Concurrency, Limit: 10, QueueLimit: 10 * n},
		"fair":        {Kind: machine.Concurrency, Limit: 10, QueueLimit: 10 * n, Mode: machine.FairShare},
	} {
		m := machine.New[int](terms)
		m.Try(0, 10)
		waiters := make([]*machine.Waiter[int], n)
		for i := range waiters {
			waiters[i] = &machine.Waiter[int]{N: 8 + i%2}
			waiters[i].SetFlow(fair.Flow{Key: string(rune('a' + i%2))})
			m.Wait(0, waiters[i])
		}
		now := int64(0)
		measure := func(what string, f func(i int)) {
			t.Helper()
			const rounds = 200
			begun := time.Now()
			for i := range rounds {
				f(i)
				m.Decided()
			}
			took := time.Since(begun) / rounds
			t.Logf("%s, %s: %v", name, what, took)
			if took > time.Millisecond { // 10 µs and less on a quiet machine
				t.Errorf("%s, %s: %v", name, what, took)
			}
		}
		measure("a try after a cancellation", func(i int) {
			m.Cancel(now, waiters[n-1-i])
			m.Try(now, 1)
		})
		measure("an update of the limit", func(i int) {
			t := *m.Terms()
			t.Limit = 10 + i%2
			t.Epoch++
			m.Update(now, &t)
		})
		measure("a rejected request", func(int) {
			m.Admit(now, 10, 0, fair.Flow{Key: "a"})
		})
		if terms.Kind != machine.Concurrency {
			measure("a give-back", func(int) { m.GiveBack(now, 1) })
			measure("a late timer", func(int) {
				now += second
				m.Advance(now)
			})
		}
		if name == "fair" {
			t := *m.Terms()
			t.QueueLimit = m.Queued()
			t.Limit = t.QueueLimit
			m.Release(0, -t.QueueLimit)
			m.Update(now, &t)
			measure("a rejected request of many permits", func(int) { m.Admit(now, t.QueueLimit*6/10, machine.Never, fair.Flow{Key: "c"}) })
		}
	}
}
