package service_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/core"
)

// stalled is a writer that takes nothing before it is released.
type stalled struct {
	released chan struct{}
	bytes.Buffer
}

func (s *stalled) Write(p []byte) (int, error) {
	<-s.released
	return s.Buffer.Write(p)
}

// TestMessagesDoNotBlock: messages to a reader that stalls are queued and then lost, and the losses are reported.
func TestMessagesDoNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &stalled{released: make(chan struct{})}
		m := service.NewMessages(w)
		line := []byte(strings.Repeat("x", 1<<10-1) + "\n")
		const written = 3000
		for range written {
			n, err := m.Write(line)
			assert.Equal(t, len(line), n)
			assert.NoError(t, err)
		}
		close(w.released)
		m.Close()
		text := w.String()
		kept := strings.Count(text, string(line))
		assert.Less(t, kept, written)
		assert.Greater(t, kept, 1000)
		assert.Contains(t, text, "log messages were lost: the reader of stderr had stalled\n")
	})
}

// TestMessagesEnd: a reader that stays stalled does not hold up the end.
func TestMessagesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &stalled{released: make(chan struct{})}
		m := service.NewMessages(w)
		_, _ = m.Write([]byte("listening\n"))
		start := time.Now()
		m.Close()
		assert.Equal(t, time.Second, time.Since(start))
		assert.Empty(t, w.String())
		close(w.released)
		synctest.Wait()
	})
}

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
