package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestScaled(t *testing.T) {
	for _, test := range []struct{ limit, half, twice string }{
		{"100/s", "50/s", "200/s"},
		{"5/s", "5/2s", "10/s"},
		{"1/s", "1/2s", "2/s"},
		{"5/s burst 3 queue 7", "5/2s burst 1 queue 7", "10/s burst 6 queue 7"},
		{"sliding 5/1m", "sliding 2/1m", "sliding 10/1m"},
		{"fixed 1/1h", "fixed 1/1h", "fixed 2/1h"},
		{"concurrency 5 queue 2", "concurrency 2 queue 2", "concurrency 10 queue 2"},
		{"unlimited", "unlimited", "unlimited"},
	} {
		l := limitOf(t, test.limit)
		assert.Equal(t, limitOf(t, test.half), Scaled(0.5)(l), test.limit)
		assert.Equal(t, limitOf(t, test.twice), Scaled(2)(l), test.limit)
		assert.Equal(t, l, Scaled(1)(l), test.limit)
	}
}
