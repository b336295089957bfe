// Package settle contains the programs of docs/settle.md: limits for costs that are known only afterwards.
package settle

import (
	"context"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

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
func Export(limiter core.Limiter, pages iter.Seq[int]) error {
	lease := limiter.TryAcquire(100) // an estimate
	if err := lease.Err(); err != nil {
		return err
	}
	defer func() { lease.Release() }() // of the lease as it is then
	used := 0
	for rows := range pages {
		if used += rows; used > lease.Permits() {
			lease = lease.Settle(used) // the cost so far
		}
	}
	lease = lease.Settle(used)
	return nil
}

// Credit is a limiter of an amount that is paid in. It is not returned with time.
type Credit struct {
	mu   sync.Mutex
	left int
}

// Pay adds an amount.
func (c *Credit) Pay(amount int) { c.Settle(amount, 0) }

// TryAcquire takes permits if there are as many.
func (c *Credit) TryAcquire(permits int) core.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case permits < 0:
		return core.Fail(core.ErrNegativePermits)
	case max(permits, 1) > c.left:
		return core.Reject(core.Remaining.With(c.left))
	}
	c.left -= permits
	return core.GrantFrom(c, permits)
}

// Settle corrects the cost of a lease: see core.Granter.
func (c *Credit) Settle(had, now int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left += had - now
	return now
}

// Acquire is TryAcquire: nobody knows when somebody pays.
func (c *Credit) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return core.Fail(err), err
	}
	lease := c.TryAcquire(permits)
	return lease, lease.Err()
}

// Available returns what is left.
func (c *Credit) Available() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.left, 0)
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
