package fair_test

import (
	"fmt"

	"github.com/sluice-go/sluice/internal/fair"
)

// One tenant has sent four requests before the other's first. They take turns.
func Example() {
	var q fair.Queue[string]
	for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2"} {
		q.Push(&fair.Item[string]{N: 1, Value: name}, fair.Flow{Key: name[:1]})
	}
	for it := q.Next(); it != nil; it = q.Next() {
		q.Take(it)
		fmt.Print(it.Value, " ")
	}
	// Output: a1 b1 a2 b2 a3 a4
}
