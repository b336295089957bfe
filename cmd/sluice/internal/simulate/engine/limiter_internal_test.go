package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/spec"
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
		parse := func(text string) spec.Limit {
			l, err := spec.Parse(text)
			require.NoError(t, err)
			return l
		}
		assert.Equal(t, parse(test.half), scaled(parse(test.limit), 0.5), test.limit)
		assert.Equal(t, parse(test.twice), scaled(parse(test.limit), 2), test.limit)
		assert.Equal(t, parse(test.limit), scaled(parse(test.limit), 1), test.limit)
	}
}
