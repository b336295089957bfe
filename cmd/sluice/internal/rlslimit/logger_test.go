package rlslimit_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
)

// A request that a rule in shadow mode lets through is logged, once a second.
func TestLogger(t *testing.T) {
	var log bytes.Buffer
	s := service(t, `
- {key: a, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 0}}
- {key: b, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 0}}
`, func(o *rlslimit.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	lines := func(descriptor string) int {
		before := log.Len()
		ask(t, s, entries(descriptor))
		return strings.Count(log.String()[before:], "over the limit, and let through")
	}
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, 1, lines("a=x"))
		assert.Zero(t, lines("a=y"))
		assert.Equal(t, 1, lines("b=x"), "another rule")
		time.Sleep(time.Second - 1)
		assert.Zero(t, lines("a=x"))
		time.Sleep(1)
		assert.Equal(t, 1, lines("a=x"))
	})
}
