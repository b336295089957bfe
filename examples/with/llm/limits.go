package main

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// The limits of an account, in any minute and in a calendar month.
const (
	requestsPerMinute = 60
	tokensPerMinute   = 6_000
	tokensPerMonth    = 1_000_000
)

// perMinute returns a limit of n permits in any minute. Permits are returned one segment at a time. The window
// is one segment longer than a minute, so every minute lies within a window.
func perMinute(name string, n int) (core.Limiter, error) {
	return core.NewSlidingWindow(core.SlidingWindowOptions{
		Name: name, PermitLimit: n, Window: 61 * time.Second, SegmentsPerWindow: 61,
	})
}

// perMonth returns a limit of n permits per month. It is reset on the first day of the month, in UTC.
func perMonth(name string, n int) (core.Limiter, error) {
	return core.NewFixedWindow(core.FixedWindowOptions{Name: name, PermitLimit: n, Calendar: core.Monthly(1, time.UTC)})
}

// limits holds the limits of the gateway.
type limits struct {
	*httplimit.Limits

	requests, tokens *partition.Keyed[*http.Request, string] // requests and tokens by account
}

// newLimits makes the policies requests and tokens. A request needs permits of both, and each policy has its own cost;
// times multiplies both. The wrapper applies its policies in order and refunds the earlier ones if one rejects.
func newLimits(times int) (*limits, error) {
	requests, err := byAccount("requests", func(string) (core.Limiter, error) {
		return perMinute("requests", times*requestsPerMinute)
	})
	tokens, err2 := byAccount("tokens", func(string) (core.Limiter, error) {
		rate, err := perMinute("tokens", times*tokensPerMinute)
		budget, err2 := perMonth("budget", times*tokensPerMonth)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return core.Chain(rate, budget) // tokens are taken from both, or from none
	})
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	l, err := httplimit.New(httplimit.Options{
		Policies: []httplimit.Policy{{
			Name:    "requests",
			Limiter: requests,
			Refund:  func(_ *http.Request, status int) bool { return status >= 500 }, // our failure
		}, {
			Name:    "tokens",
			Limiter: tokens,
			Cost:    func(r *http.Request) int { return callOf(r).estimate },
			Settle: func(_ *http.Request, _ int, h http.Header) int {
				used, err := strconv.Atoi(h.Get(usedField))
				if err != nil {
					return -1 // unknown; the estimate stays
				}
				return used
			},
		}},
		Headers:     httplimit.Draft11,
		ProblemJSON: true,
	})
	return &limits{l, requests, tokens}, err
}

func byAccount(name string, limiter func(account string) (core.Limiter, error)) (*partition.Keyed[*http.Request, string], error) {
	return partition.New(partition.Options[*http.Request, string]{
		Name: name,
		Key:  func(r *http.Request) string { return callOf(r).account },
		New:  limiter,
	})
}

func (l *limits) close() error { return errors.Join(l.requests.Close(), l.tokens.Close()) }
