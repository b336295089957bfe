package machine_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
)

// A bucket of 2, one token a second, and requests that may wait.
func Example() {
	type request struct{ name string }
	m := machine.New[request](new(machine.Bucket), &machine.Terms{
		Limit: 2, Step: 1, Span: int64(time.Second), QueueLimit: 2,
	})
	now := int64(0)
	pass := func(until int64) {
		for due := m.Next(now); due <= until; due = m.Next(now) {
			now = due
			m.Advance(now)
			for w := m.Decided(); w != nil; w = w.Next() {
				fmt.Println(time.Duration(w.Answer.At), w.Value.name, w.Answer.Outcome == machine.Granted)
			}
		}
		now = until
		m.Advance(now)
	}

	fmt.Println(m.Try(now, 2).Outcome == machine.Granted)
	for _, name := range []string{"first", "second", "third"} {
		switch a := m.Admit(now, 1, machine.Never, fair.Flow{}, false); {
		case a.Outcome == machine.Waiting:
			m.Enqueue(now, &machine.Waiter[request]{N: 1, Value: request{name}})
		case a.Outcome.Rejected():
			fmt.Println(name, "again in", time.Duration(a.ReadyAt-a.At))
		}
	}
	pass(int64(time.Minute))
	fmt.Println(m.Available())
	// Output:
	// true
	// third again in 3s
	// 1s first true
	// 2s second true
	// 2
}
