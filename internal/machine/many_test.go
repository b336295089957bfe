package machine_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
)

// The work under the caller's lock does not grow with the number of waiters: among a hundred times as many it takes
// much less than a hundred times as long. The shortest of many rounds is compared, which a busy machine does not change.
func TestManyWaitersCostNothing(t *testing.T) {
	second := int64(time.Second)
	for name, limit := range map[string]struct {
		account machine.Account
		terms   machine.Terms
	}{
		"bucket":      {new(machine.Bucket), machine.Terms{Limit: 10, Step: 5, Span: second}},
		"window":      {new(machine.Segments), machine.Terms{Limit: 10, Step: 3, Span: second}},
		"concurrency": {new(machine.Permits), machine.Terms{Limit: 10, Mode: machine.Held}},
		"fair":        {new(machine.Permits), machine.Terms{Limit: 10, Mode: machine.Held | machine.FairShare}},
	} {
		few := amongWaiters(name, machine.Copy(limit.account), limit.terms, 1_000)
		many := amongWaiters(name, limit.account, limit.terms, 100_000)
		for what, took := range many {
			t.Logf("%s, %s: %v and %v", name, what, few[what], took)
			if took > 30*max(few[what], time.Microsecond) {
				t.Errorf("%s, %s: %v among few waiters, %v among many", name, what, few[what], took)
			}
		}
	}
}

// amongWaiters returns how long each operation takes while n requests wait.
func amongWaiters(name string, account machine.Account, terms machine.Terms, n int) map[string]time.Duration {
	const rounds = 200
	terms.QueueLimit = 10 * n
	m := machine.New[int](account, &terms)
	m.Try(0, 10)
	waiters := make([]*machine.Waiter[int], n)
	for i := range waiters {
		waiters[i] = &machine.Waiter[int]{N: 8 + i%2}
		waiters[i].SetFlow(fair.Flow{Key: string(rune('a' + i%2))})
		m.Enqueue(0, waiters[i])
	}
	now := int64(0)
	shortest := map[string]time.Duration{}
	measure := func(what string, f func(i int)) {
		shortest[what] = time.Hour
		for i := range rounds {
			start := time.Now()
			f(i)
			m.Decided()
			shortest[what] = min(shortest[what], time.Since(start))
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
		m.Admit(now, 10, 0, fair.Flow{Key: "a"}, false)
	})
	if !terms.Held() {
		measure("a give-back", func(int) { m.GiveBack(now, 1) })
		measure("a late timer", func(int) {
			now += int64(time.Second)
			m.Advance(now)
		})
	}
	if name == "fair" {
		t := *m.Terms()
		t.QueueLimit = m.Queued()
		t.Limit = t.QueueLimit
		m.Release(0, -t.QueueLimit)
		m.Update(now, &t)
		measure("a rejected request of many permits", func(int) { m.Admit(now, t.QueueLimit*6/10, machine.Never, fair.Flow{Key: "c"}, false) })
	}
	return shortest
}
