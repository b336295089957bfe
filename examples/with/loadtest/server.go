package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// test is what is tried, and on what.
type test struct {
	slots    int
	work     time.Duration
	patience time.Duration
	time     time.Duration
	out      io.Writer
}

// capacity is how many requests a second the backend can serve.
func (t test) capacity() float64 { return float64(t.slots) / t.work.Seconds() }

// contender is a limit under test; nil: none.
type contender struct {
	name   string
	policy func() (*httplimit.Policy, error)
}

func (t test) contenders() []contender {
	queue := int(t.capacity() * t.patience.Seconds()) // whoever stands last waits for as long as it can
	atOnce := func(order core.QueueOrder) func() (*httplimit.Policy, error) {
		return func() (*httplimit.Policy, error) {
			l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
				PermitLimit: t.slots, QueueLimit: queue, QueueOrder: order,
			})
			return &httplimit.Policy{Limiter: httplimit.Shared(l), MaxWait: -1, Status: http.StatusServiceUnavailable}, err
		}
	}
	return []contender{
		{"none", nil},
		{"oldest first", atOnce(core.OldestFirst)},
		{"newest first", atOnce(core.NewestFirst)},
		{"rate", func() (*httplimit.Policy, error) {
			rate := max(int(0.9*t.capacity()), 1)
			l, err := core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: t.slots, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second / time.Duration(rate),
			})
			return &httplimit.Policy{Limiter: httplimit.Shared(l), Status: http.StatusServiceUnavailable}, err
		}},
	}
}

// serve starts the server under the limit. closeServer ends it, whatever it has still to do.
func (t test) serve(c contender) (s *httptest.Server, closeServer func(), err error) {
	slots, stop := make(chan struct{}, t.slots), make(chan struct{})
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// As most do, it does not notice that its client has gone.
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-stop:
			return
		}
		work := time.NewTimer(t.work)
		defer work.Stop()
		<-work.C
		w.WriteHeader(http.StatusNoContent)
	})
	if c.policy != nil {
		p, err := c.policy()
		if err != nil {
			return nil, nil, err
		}
		limits, err := httplimit.New(httplimit.Options{Global: p})
		if err != nil {
			return nil, nil, err
		}
		h = limits.Handler(h)
	}
	s = httptest.NewServer(h)
	return s, func() {
		close(stop)
		s.Close()
	}, nil
}
