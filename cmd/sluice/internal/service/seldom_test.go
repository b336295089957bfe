package service_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/core"
)

// TestSeldom prints one message per interval, with how many were suppressed since the one before.
func TestSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		s := service.NewSeldom(func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }, core.Every(time.Minute, 1))
		for i := range 4 {
			s.Say("message %d", i)
		}
		time.Sleep(time.Minute)
		s.Say("message 4")
		time.Sleep(time.Hour)
		s.Say("message 5")
		assert.Equal(t, []string{"message 0", "message 4 (3 similar messages suppressed)", "message 5"}, said)
	})
}
