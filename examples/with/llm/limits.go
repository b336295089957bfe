package main

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
)

// The limits of an account, in any minute and in a calendar month.
const (
	requestsPerMinute = 60
	tokensPerMinute   = 6_000
	tokensPerMonth    = 1_000_000
)

// period is the time to which a limit applies.
type period int

const (
	minute period = iota
	month
)

// window returns a limit of n permits in any minute. Permits come back one segment at a time. The window is
// one segment longer than a minute, so every minute lies within a window.
func window(name string, n int) core.SlidingWindowOptions {
	return core.SlidingWindowOptions{
		Name: name, PermitLimit: n, Window: 61 * time.Second, SegmentsPerWindow: 61,
	}
}

// budget returns a limit of n permits per month. It is reset on the first day of the month, in UTC.
func budget(name string, n int) core.FixedWindowOptions {
	return core.FixedWindowOptions{Name: name, PermitLimit: n, Calendar: core.Monthly(1, time.UTC)}
}

// newLimiter makes an account's limiter of n permits per minute or month.
type newLimiter func(per period, name, account string, n int) (core.Limiter, error)

// inMemory limits one gateway.
func inMemory(per period, name, _ string, n int) (core.Limiter, error) {
	if per == month {
		return core.NewFixedWindow(budget(name, n))
	}
	return core.NewSlidingWindow(window(name, n))
}

// onStore limits the given number of gateways together. While the store is unreachable, each gateway
// enforces its share of the limit.
func onStore(store redislimit.Store, prefix string, gateways int) newLimiter {
	return func(per period, name, account string, n int) (core.Limiter, error) {
		part, err := inMemory(per, name, account, max(n/gateways, 1))
		if err != nil {
			return nil, err
		}
		shared := redislimit.StoreOptions{
			Store: store, Key: prefix + " " + name + " " + account,
			Timeout:     time.Second, // far longer than a decision takes, so that the limits decide and not the timeout
			Unavailable: redislimit.UseLocal, Local: part,
		}
		if per == month {
			return redislimit.NewFixedWindow(redislimit.FixedWindowOptions{FixedWindowOptions: budget(name, n), Shared: shared})
		}
		return redislimit.NewSlidingWindow(redislimit.SlidingWindowOptions{SlidingWindowOptions: window(name, n), Shared: shared})
	}
}

// limits holds the limits of one gateway.
type limits struct {
	*httplimit.Limits

	requests, tokens *partition.Keyed[*http.Request, string] // by account
}

// newLimits makes the policies requests and tokens. A request needs permits of both, and each policy has its
// own cost. The wrapper asks its policies in order and refunds the earlier ones if one rejects.
func newLimits(limiter newLimiter) (*limits, error) {
	requests, err := byAccount("requests", func(account string) (core.Limiter, error) {
		return limiter(minute, "requests", account, requestsPerMinute)
	})
	tokens, err2 := byAccount("tokens", func(account string) (core.Limiter, error) {
		rate, err := limiter(minute, "tokens", account, tokensPerMinute)
		budget, err2 := limiter(month, "budget", account, tokensPerMonth)
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
			Permits: func(r *http.Request) int { return callOf(r).estimate },
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
