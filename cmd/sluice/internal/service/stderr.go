package service

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

const (
	messageQueue = 1 << 20     // bytes of log messages that wait to be written
	flushTime    = time.Second // for what is still to be written when the service ends
)

// Messages writes log messages in a goroutine of its own, so that a reader of stderr that stalls holds up neither requests nor
// signals. Messages that do not fit its queue are lost, and are counted once the reader is back.
type Messages struct {
	to    io.Writer
	queue *channel.LimitedChannel[[]byte]
	lost  atomic.Int64
	done  chan struct{}
}

// NewMessages returns a writer of messages to w. Close it.
func NewMessages(w io.Writer) *Messages {
	m := &Messages{to: w, done: make(chan struct{})}
	m.queue = core.Must(channel.New(channel.Options[[]byte]{
		Limiter: core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: messageQueue})),
		Cost:    func(message []byte) int { return len(message) },
	}))
	go m.run()
	return m
}

// Write queues a message.
func (m *Messages) Write(p []byte) (int, error) {
	if m.queue.TrySend(append([]byte(nil), p...)) != nil {
		m.lost.Add(1)
	}
	return len(p), nil
}

func (m *Messages) run() {
	defer close(m.done)
	for message := range m.queue.All(context.Background()) { //nolint:forbidigo // it ends when m is closed
		_, _ = m.to.Write(message)
		if n := m.lost.Swap(0); n > 0 {
			_, _ = fmt.Fprintf(m.to, "sluice: %d log messages were lost: the reader of stderr had stalled\n", n)
		}
	}
}

// Close writes what is queued, unless that takes long.
func (m *Messages) Close() {
	_ = m.queue.Close()
	select {
	case <-m.done:
	case <-time.After(flushTime): //nolint:forbidigo // the process ends
	}
}
