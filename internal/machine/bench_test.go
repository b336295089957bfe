package machine_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
)

// BenchmarkWait is a release, the grant to a waiter that it makes and an arrival, and a cancellation
// and an arrival, among 100,000 waiters.
func BenchmarkWait(b *testing.B) {
	const waiting = 100_000
	for order, mode := range map[string]machine.Mode{"oldest": 0, "newest": machine.NewestFirst, "fair": machine.FairShare} {
		for _, flows := range []int{1, 100, 10_000} {
			names := make([]fair.Flow, flows)
			for i := range names {
				names[i] = fair.Flow{Key: strconv.Itoa(i), Weight: 1 + i%7}
			}
			full := func() (*machine.Machine[int], []*machine.Waiter[int]) {
				m := machine.New[int](machine.Terms{Kind: machine.Concurrency, Limit: 1, QueueLimit: waiting + 1, Mode: mode})
				m.Try(0, 1)
				waiters := make([]*machine.Waiter[int], waiting)
				for i := range waiters {
					waiters[i] = &machine.Waiter[int]{N: 1, Value: i}
					if order == "fair" {
						waiters[i].SetFlow(names[i%flows])
					}
					m.Wait(0, waiters[i])
				}
				return m, waiters
			}
			again := func(b *testing.B, m *machine.Machine[int], w *machine.Waiter[int]) {
				if m.Admit(0, 1, machine.Never, w.Flow()).Outcome != machine.Waiting {
					b.Fatal("does not wait")
				}
				m.Wait(0, w)
			}
			b.Run(fmt.Sprintf("end=grant/order=%s/flows=%d", order, flows), func(b *testing.B) {
				m, _ := full()
				b.ReportAllocs()
				for b.Loop() {
					m.Release(0, 1)
					again(b, m, m.Decided())
				}
			})
			b.Run(fmt.Sprintf("end=cancel/order=%s/flows=%d", order, flows), func(b *testing.B) {
				m, waiters := full()
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					i = (i + 49_999) % waiting
					m.Cancel(0, waiters[i])
					again(b, m, waiters[i])
				}
			})
		}
	}
}
