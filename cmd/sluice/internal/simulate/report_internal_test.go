package simulate

import (
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// TestMergeOfALogThatFails: the requests that were read come, and then the error, although another log has more.
func TestMergeOfALogThatFails(t *testing.T) {
	failed := false
	logOf := func(fails bool, at ...int64) iter.Seq[engine.Request] {
		return func(yield func(engine.Request) bool) {
			for _, at := range at {
				if !yield(engine.Request{At: at}) {
					return
				}
			}
			failed = failed || fails
		}
	}
	var got []int64
	for q := range engine.Merge([]iter.Seq[engine.Request]{logOf(false, 1, 3, 5), logOf(true, 2, 4)}, func() bool { return failed }) {
		got = append(got, q.At)
	}
	assert.Equal(t, []int64{1, 2, 3, 4}, got)
}

// TestNamesOfKeys: clients choose keys, which must not control a terminal.
func TestNamesOfKeys(t *testing.T) {
	assert.Equal(t, "login a?[31mb??", engine.Name{Policy: "login", Key: "a\x1b[31mb\u009b\xff"}.String())
}
