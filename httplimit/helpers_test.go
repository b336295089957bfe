package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// ok is a handler that responds with a short body.
var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })

func all(l core.Limiter) httplimit.Limiter { return httplimit.Shared(l) }

// atOnce is a concurrency limiter.
func atOnce(t *testing.T, permits, queue int) *core.ConcurrencyLimiter {
	t.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue}))
}

// perMinute is a fixed window.
func perMinute(t *testing.T, permits int) *core.FixedWindow {
	t.Helper()
	return core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: permits, Window: time.Minute}))
}

// limits makes Limits.
func limits(t *testing.T, o httplimit.Options) *httplimit.Limits {
	t.Helper()
	return core.Must(httplimit.New(o))
}

// get plays one request.
func get(h http.Handler, path string) *httptest.ResponseRecorder {
	return play(h, httptest.NewRequest(http.MethodGet, path, nil))
}

func play(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// readAnswer reads a response, and returns its body.
func readAnswer(t *testing.T, from io.Reader) []byte {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(from), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return body
}

// free checks that all permits of a limiter are there.
func free(t *testing.T, l interface {
	core.Limiter
	core.Reporter
},
) {
	t.Helper()
	s := l.Statistics()
	require.Equal(t, s.Limit, s.Available, "a lease was lost")
	require.Zero(t, s.Queued)
}

// panicking is a limiter that panics.
type panicking struct{ with any }

func (p panicking) TryAcquire(*http.Request, int) core.Lease { panic(p.with) }
func (p panicking) Acquire(context.Context, *http.Request, int) (core.Lease, error) {
	panic(p.with)
}

// refuser responds to every call with one lease.
type refuser core.Lease

func (l refuser) TryAcquire(*http.Request, int) core.Lease { return core.Lease(l) }
func (l refuser) Acquire(context.Context, *http.Request, int) (core.Lease, error) {
	return core.Lease(l), core.Lease(l).Err()
}

var errBroken = errors.New("the secret host is down")

// journal is an Observer that records its calls, or a limiter's events.
type journal struct {
	mu    sync.Mutex
	lines []string
	panic string // the line that panics
}

func (j *journal) write(format string, a ...any) {
	line := fmt.Sprintf(format, a...)
	j.mu.Lock()
	j.lines = append(j.lines, line)
	j.mu.Unlock()
	if j.panic != "" && strings.HasPrefix(line, j.panic) {
		panic(line)
	}
}

func (j *journal) read() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := strings.Join(j.lines, "; ")
	j.lines = nil
	return text
}

func (j *journal) Queued(_ context.Context, policy string, delta int) {
	j.write("queued %s %+d", policy, delta)
}

func (j *journal) Decided(_ context.Context, policy string, r httplimit.Result, waited time.Duration) {
	j.write("%v %s %v", r, policy, waited)
}

func (j *journal) Active(_ context.Context, policy string, delta int) {
	j.write("active %s %+d", policy, delta)
}

func (j *journal) Released(_ context.Context, policy string, held time.Duration) {
	j.write("released %s %v", policy, held)
}

// noting is a limiter that records its grants, releases and refunds.
type noting struct {
	name    string
	journal *journal
	rejects bool
}

func (l noting) TryAcquire(permits int) core.Lease {
	if l.rejects {
		l.journal.write("reject %s", l.name)
		return core.Reject()
	}
	l.journal.write("grant %s %d", l.name, permits)
	return core.Grant(permits, func() { l.journal.write("release %s", l.name) })
}

func (l noting) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := ctx.Err(); err != nil {
		return core.Fail(err), err
	}
	lease := l.TryAcquire(permits)
	return lease, lease.Err()
}

func (l noting) Available() int { return 1 }

// refundable is noting, with leases that can be refunded.
type refundable struct{ noting }

func (l refundable) TryAcquire(permits int) core.Lease {
	lease := l.noting.TryAcquire(permits)
	if lease.Acquired() {
		lease = core.GrantFrom(refundableGranter(l), permits)
	}
	return lease
}

type refundableGranter struct{ noting }

func (g refundableGranter) Settle(had, now int) int {
	if now == 0 {
		g.journal.write("refund %s", g.name)
		return 0
	}
	return had
}

func (g refundableGranter) Release(int) { g.journal.write("release %s", g.name) }
