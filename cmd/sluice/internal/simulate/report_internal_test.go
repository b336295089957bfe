package simulate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// TestMergeOfALogThatFails: the requests that were read come, and then the error, although another log has more.
func TestMergeOfALogThatFails(t *testing.T) {
	logOf := func(err error, at ...int64) *log {
		l := &log{out: make(chan []engine.Request, len(at)), err: err}
		for _, at := range at {
			l.out <- []engine.Request{{At: at}}
		}
		close(l.out)
		return l
	}
	cut := errors.New("unexpected end")
	var failed error
	var got []int64
	for q := range merge([]*log{logOf(nil, 1, 3, 5), logOf(cut, 2, 4)}, &failed) {
		got = append(got, q.At)
	}
	assert.Equal(t, []int64{1, 2, 3, 4}, got)
	assert.Equal(t, cut, failed)
}

// TestNamesOfKeys: clients choose keys, which must not control a terminal.
func TestNamesOfKeys(t *testing.T) {
	assert.Equal(t, "login a?[31mb??", engine.Name{Policy: "login", Key: "a\x1b[31mb\u009b\xff"}.String())
}
