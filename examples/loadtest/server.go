package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// test holds the load and the server under test.
type test struct {
	slots    int
	work     time.Duration
	patience time.Duration
	settling time.Duration // the time before requests count
	time     time.Duration
	out      io.Writer
}

// capacity is the number of requests per second that the backend can serve.
func (t test) capacity() float64 { return float64(t.slots) / t.work.Seconds() }

// contender is a limit under test. Without a policy, there is no limit.
type contender struct {
	name   string
	policy func() (*httplimit.Policy, error)
}

func (t test) contenders() []contender {
	longest := int(t.capacity() * t.patience.Seconds()) // the last in the queue waits for as long as its client
	queued := func(queue int, order core.QueueOrder) func() (*httplimit.Policy, error) {
		return func() (*httplimit.Policy, error) {
			l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
				PermitLimit: t.slots, QueueLimit: queue, QueueOrder: order,
			})
			return &httplimit.Policy{Limiter: httplimit.Shared(l), MaxWait: -1, Status: http.StatusServiceUnavailable}, err
		}
	}
	return []contender{
		{"none", nil},
		{"oldest first, long queue", queued(longest, core.OldestFirst)},
		{"oldest first, half of it", queued(longest/2, core.OldestFirst)},
		{"newest first, long queue", queued(longest, core.NewestFirst)},
		{"rate", func() (*httplimit.Policy, error) {
			rate := max(int(0.9*t.capacity()), 1)
			l, err := core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: t.slots, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second / time.Duration(rate),
			})
			return &httplimit.Policy{Limiter: httplimit.Shared(l), Status: http.StatusServiceUnavailable}, err
		}},
	}
}

// handler returns the server under the limit. stop ends the requests that wait for its backend.
func (t test) handler(c contender) (h http.Handler, stop func(), err error) {
	slots, stopped := make(chan struct{}, t.slots), make(chan struct{})
	h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// Like most backends, it does not notice that its client has disconnected.
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-stopped:
			return
		}
		work := time.NewTimer(t.work)
		defer work.Stop()
		<-work.C
		w.WriteHeader(http.StatusNoContent)
	})
	stop = func() { close(stopped) }
	if c.policy == nil {
		return h, stop, nil
	}
	p, err := c.policy()
	if err != nil {
		return nil, nil, err
	}
	limits, err := httplimit.New(httplimit.Options{Global: p})
	if err != nil {
		return nil, nil, err
	}
	return limits.Handler(h), stop, nil
}

// serve starts a server with the handler. closeServer stops it without waiting for its requests.
func serve(h http.Handler, stop func()) (ask asker, closeServer func()) {
	s := httptest.NewServer(h)
	client := s.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = 1000
	ask = func(ctx context.Context) int {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			return 0
		}
		response, err := client.Do(r)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	return ask, func() {
		stop()
		s.Close()
	}
}
