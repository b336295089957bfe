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

// What an account may use in a minute.
const (
	requestsPerMinute = 60
	tokensPerMinute   = 6_000
)

// window returns a limit of n permits in any minute. What was taken comes back a segment at a
// time; as the window is a segment longer than a minute, any minute lies within it.
func window(name string, n int) core.SlidingWindowOptions {
	return core.SlidingWindowOptions{
		Name: name, PermitLimit: n, Window: 61 * time.Second, SegmentsPerWindow: 61,
	}
}

// newLimiter makes an account's limiter of n permits a minute.
type newLimiter func(name, account string, n int) (core.Limiter, error)

// inMemory limits one gateway.
func inMemory(name, _ string, n int) (core.Limiter, error) {
	return core.NewSlidingWindow(window(name, n))
}

// onStore limits the given number of gateways together. While the store is unreachable, each of
// them keeps to its part of the limit.
func onStore(store redislimit.Store, prefix string, gateways int) newLimiter {
	return func(name, account string, n int) (core.Limiter, error) {
		part, err := core.NewSlidingWindow(window(name, max(n/gateways, 1)))
		if err != nil {
			return nil, err
		}
		return redislimit.NewSlidingWindow(redislimit.SlidingWindowOptions{
			SlidingWindowOptions: window(name, n),
			Shared: redislimit.Shared{
				Store: store, Key: prefix + " " + name + " " + account,
				Budget: time.Second, // far more than a decision takes, as this is to show the limit
				Down:   redislimit.DownLocal, Local: part,
			},
		})
	}
}

// limits are those of one gateway.
type limits struct {
	*httplimit.Limits

	requests, tokens *partition.Keyed[*http.Request, string] // by account
}

// newLimits makes the policies requests and tokens. A request needs both, each at its own cost: a
// wrapper asks its policies in order, and gives back what it has taken if one of them rejects.
func newLimits(limiter newLimiter) (*limits, error) {
	requests, err := byAccount("requests", requestsPerMinute, limiter)
	tokens, err2 := byAccount("tokens", tokensPerMinute, limiter)
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
					return -1 // unknown: the estimate counts
				}
				return used
			},
		}},
		Headers:  httplimit.Draft11,
		Problems: true,
	})
	return &limits{l, requests, tokens}, err
}

func byAccount(name string, n int, limiter newLimiter) (*partition.Keyed[*http.Request, string], error) {
	return partition.New(partition.Options[*http.Request, string]{
		Name: name,
		Key:  func(r *http.Request) string { return callOf(r).account },
		New:  func(account string) (core.Limiter, error) { return limiter(name, account, n) },
	})
}

func (l *limits) close() error { return errors.Join(l.requests.Close(), l.tokens.Close()) }
