// Package settle contains the programs of docs/settle.md: limits for costs that are known only afterwards.
package settle

import (
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// TokensPerMinute returns a policy that charges an estimate until the request has been served.
func TokensPerMinute(estimate func(*http.Request) int, accounts httplimit.Limiter) httplimit.Policy {
	return httplimit.Policy{
		Name:    "tokens",
		Limiter: accounts,
		Cost:    estimate,
		Settle: func(_ *http.Request, _ int, h http.Header) int {
			used, err := strconv.Atoi(h.Get("X-Tokens-Used"))
			if err != nil {
				return -1 // unknown: the estimate stays
			}
			return used
		},
	}
}

// Export takes one permit per row of the pages.
func Export(limiter *core.TokenBucket, pages iter.Seq[int]) error {
	lease := limiter.TryAcquire(100) // an estimate
	if err := lease.Err(); err != nil {
		return err
	}
	used := 0
	for rows := range pages {
		if used += rows; used > lease.Permits() {
			lease = limiter.Settle(lease, used) // the cost so far
		}
	}
	limiter.Settle(lease, used)
	return nil
}

// Stream writes the parts, and then the number of their words as a trailer.
func Stream(w http.ResponseWriter, r *http.Request, parts iter.Seq[string]) {
	used := 0
	w.Header().Set("Trailer", "X-Tokens-Used")
	defer func() { w.Header().Set("X-Tokens-Used", strconv.Itoa(used)) }()
	for text := range parts {
		if r.Context().Err() != nil {
			return // the client has disconnected: the unused permits are returned
		}
		used += len(strings.Fields(text))
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// Client returns a client that settles each request to the cost that the server reports in a trailer.
func Client(perMinute core.Limiter) (*http.Client, error) {
	transport, err := httplimit.NewTransport(httplimit.TransportOptions{
		Limiter: httplimit.Shared(perMinute),
		Settle: func(response *http.Response) int {
			used, err := strconv.Atoi(response.Trailer.Get("X-Tokens-Used"))
			if err != nil {
				return -1
			}
			return used
		},
	})
	return &http.Client{Transport: transport}, err
}

// Watch adds a policy that counts but rejects nothing.
func Watch(limits *httplimit.Limits, o httplimit.Options, tokens httplimit.Policy) error {
	tokens.Shadow = true
	o.Policies = append(slices.Clone(o.Policies), tokens)
	return limits.Update(o) // while the server runs
}

// LetIn resets the limiter of an account and reports whether it did.
func LetIn(accounts *partition.Keyed[*http.Request, string], account string) bool {
	limiter, ok := accounts.Get(account)
	if !ok {
		return false // no permits are taken
	}
	l, ok := limiter.(core.Resetter)
	if ok {
		l.Reset()
	}
	return ok
}
