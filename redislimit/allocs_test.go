//go:build !race

package redislimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// grants is a store that allocates nothing, and grants all.
type grants struct {
	liar

	reply []int64
}

func (s *grants) Run(context.Context, *redislimit.Script, []string, ...int64) ([]int64, error) {
	return s.reply, nil
}

func (*grants) Ready() bool { return true }

func TestAllocations(t *testing.T) {
	one := core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}
	s := &grants{reply: []int64{0, 1e15, 0, 1, 500, 0, 0}}
	l := bucket(t, redislimit.Options{Store: s, Key: "key", Prefetch: 1, Timeout: time.Minute}, one)
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { l.TryAcquire(1) }), 14.0, "a take that asks the store")

	s = &grants{reply: []int64{0, 1e15, 0, 0, 1000, 0, 0}}
	l = bucket(t, redislimit.Options{Store: s, Key: "key", Prefetch: 1, Timeout: time.Minute}, one)
	refuses(t, l, 1)
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { l.TryAcquire(1) }), 2.0, "a refusal that is remembered")
}
