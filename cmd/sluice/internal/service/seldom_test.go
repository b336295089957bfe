package service_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/core"
)

// TestSeldom lets one message pass per interval, and tells how many were suppressed since the one before.
func TestSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s service.Seldom
		allows := func(suppressed int, want bool) {
			n, ok := s.Allow(core.Every(time.Minute, 1))
			assert.Equal(t, want, ok)
			assert.Equal(t, suppressed, n)
		}
		allows(0, true)
		for range 3 {
			allows(0, false)
		}
		time.Sleep(time.Minute)
		allows(3, true)
		time.Sleep(time.Hour)
		allows(0, true)
	})
	assert.Empty(t, service.Suppressed(0))
	assert.Equal(t, " (3 similar messages suppressed)", service.Suppressed(3))
}
