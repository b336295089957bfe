package limits

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

// TestFrequent: of more keys than are counted the ones that are rejected most are kept, and no count is too low.
func TestFrequent(t *testing.T) {
	var f frequent
	key := config.Key{{Kind: config.KeyHost}}
	add := func(name string) { f.add(key, []config.Value{{Text: name}}) }
	for i := range 3 * mostFrequent {
		add(fmt.Sprint("once ", i))
		add("often")
		if i%2 == 0 {
			add("half")
		}
	}
	most := f.most()
	require.Len(t, most, shownKeys)
	assert.Equal(t, Rejections{[]string{"often"}, 3 * mostFrequent}, most[0])
	assert.Equal(t, []string{"half"}, most[1].Key)
	assert.GreaterOrEqual(t, most[1].Rejected, uint64(3*mostFrequent/2))
	assert.Len(t, f.counts, mostFrequent)
}
