package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// site is a gateway before a model, both in this process.
type site struct {
	limits  *limits
	handler http.Handler
	used    ledger
}

// newSite returns one whose accounts have that many times the usual limits.
func newSite(t *testing.T, times int, model http.HandlerFunc) *site {
	t.Helper()
	s := &site{used: ledger{used: make(map[string]int)}}
	var err error
	s.limits, err = newLimits(times)
	require.NoError(t, err)
	g := &gateway{accounts: make(map[string]string), model: "http://model", client: &http.Client{Transport: inProcess{model}}, bill: s.used.add}
	for i := range accounts {
		g.accounts[apiKey(i)] = accountName(i)
	}
	s.handler = g.handler(s.limits.Limits)
	return s
}

// ask makes a request.
func (s *site) ask(t *testing.T, ctx context.Context, key, body string) (w *httptest.ResponseRecorder, aborted bool) {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	w = httptest.NewRecorder()
	defer func() { aborted = recover() != nil }()
	s.handler.ServeHTTP(w, r)
	return w, false
}

// visit makes the visit.
func (s *site) visit(t *testing.T, ctx context.Context, v visit) (w *httptest.ResponseRecorder, aborted bool) {
	t.Helper()
	body, err := v.body()
	assert.NoError(t, err)
	return s.ask(t, ctx, apiKey(v.account), body)
}

// taken returns what an account has taken of a limit: more than it if there is a debt.
func (s *site) taken(t *testing.T, account int, times int) (requests, tokens int) {
	t.Helper()
	r, ok := s.limits.requests.Get(accountName(account))
	require.True(t, ok)
	l, ok := s.limits.tokens.Get(accountName(account))
	require.True(t, ok)
	return times*requestsPerMinute - r.Available(), times*tokensPerMinute - l.Available()
}

// 2,000 concurrent streams, some of whose clients hang up: what the others have used is counted, to the token, those
// that hang up are charged the estimate, and each that was let through is a request.
func TestStressStreams(t *testing.T) {
	const visitors, times = 2000, 10
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, times, model)
		var passed, charged [accounts]int
		var rejected int
		var mu sync.Mutex
		var group sync.WaitGroup
		for n := range visitors {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(n), 7))
				for range 5 {
					v := newVisit(n%accounts, random)
					ctx, hangUp := context.WithCancel(context.WithoutCancel(t.Context()))
					if v.leaves > 0 { // between two chunks
						time.AfterFunc(v.took()+time.Millisecond, hangUp)
					}
					w, aborted := s.visit(t, ctx, v)
					used := w.Header().Get(usedField)
					mu.Lock()
					if w.Code == http.StatusTooManyRequests {
						rejected++
					} else {
						passed[v.account]++
						if aborted {
							charged[v.account] += estimate(v.prompt, v.maxTokens)
						} else {
							charged[v.account] += v.used()
						}
						assert.Equal(t, strconv.Itoa(v.used()), used)
						assert.Equal(t, v.tokens() < v.answer, aborted)
					}
					mu.Unlock()
					time.Sleep(time.Duration(random.IntN(int(time.Second))))
					hangUp()
				}
			})
		}
		group.Wait()
		require.Greater(t, rejected, visitors, "the load is not enough")
		for i, n := range passed {
			requests, tokens := s.taken(t, i, times)
			require.Equal(t, n, requests)
			require.Equal(t, min(charged[i], times*tokensPerMinute), tokens)
		}
		require.LessOrEqual(t, s.used.most(), times*tokensPerMinute+visitors/accounts*maxAnswer/2)
		time.Sleep(3 * time.Minute)
		require.Equal(t, accounts, s.limits.requests.Sweep()+s.limits.tokens.Sweep(), "the budgets are in use")
		time.Sleep(31 * 24 * time.Hour)
		require.Equal(t, accounts, s.limits.requests.Sweep()+s.limits.tokens.Sweep(), "nothing is held")
	})
}

// An account with a debt is told when it can come back, and a reset lets it in before.
func TestLockedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, model)
		long := visit{account: 1, prompt: 100, maxTokens: maxAnswer, answer: maxAnswer}
		start := time.Now()
		var w *httptest.ResponseRecorder
		for range 100 {
			if w, _ = s.visit(t, t.Context(), long); w.Code != http.StatusOK {
				break
			}
		}
		require.Equal(t, 12*long.took(), time.Since(start))
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, http.Header{
			"Cache-Control":          {"no-store"},
			"Connection":             {"close"}, // its body was not read, and a recorder has no deadline for that
			"Content-Type":           {"application/problem+json"},
			"Retry-After":            {"52"},
			"Ratelimit":              {`"requests";r=48;t=61, "tokens";r=0;t=52`},
			"Ratelimit-Policy":       {`"requests";q=60;w=61, "tokens";q=6000;w=61`},
			"X-Content-Type-Options": {"nosniff"},
		}, w.Header())
		require.Contains(t, w.Body.String(), `"violated-policies":["tokens"]`)
		requests, _ := s.taken(t, 1, 1)
		require.Equal(t, 12, requests, "the one that was rejected has its request back")

		l, ok := s.limits.tokens.Get(accountName(1))
		require.True(t, ok)
		l.(core.Resetter).Reset()
		w, _ = s.visit(t, t.Context(), long)
		require.Equal(t, http.StatusOK, w.Code)
	})
}

// An account whose budget is spent is told when the next month begins, whatever it may use in a minute.
func TestTheBudgetOfAMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, model)
		time.Sleep(27*24*time.Hour + 12*time.Hour) // it is noon on 28 January 2000
		v := visit{account: 1, prompt: 100, maxTokens: 100, answer: 50}
		w, _ := s.visit(t, t.Context(), v)
		require.Equal(t, http.StatusOK, w.Code)
		l, ok := s.limits.tokens.Get(accountName(1))
		require.True(t, ok)
		budget := l.(*core.ChainedLimiter).Limiters()[1]
		require.Equal(t, tokensPerMonth-150, budget.Available(), "it is settled, too")
		require.True(t, budget.TryAcquire(tokensPerMonth-150).Acquired())
		until := time.Date(2000, time.February, 1, 0, 0, 0, 0, time.UTC)
		w, _ = s.visit(t, t.Context(), v)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, strconv.Itoa(int((time.Until(until)+time.Second-1)/time.Second)), w.Header().Get("Retry-After"))
		time.Sleep(time.Until(until))
		w, _ = s.visit(t, t.Context(), v)
		require.Equal(t, http.StatusOK, w.Code)
	})
}

// A model that fails costs nothing.
func TestAModelThatFails(t *testing.T) {
	for name, model := range map[string]http.HandlerFunc{
		"an error":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"no answer": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 1, model)
			if model == nil {
				g := &gateway{accounts: map[string]string{apiKey(1): accountName(1)}, model: "http://127.0.0.1:1", client: new(http.Client), bill: s.used.add}
				s.handler = g.handler(s.limits.Limits)
			}
			w, _ := s.visit(t, t.Context(), visit{account: 1, prompt: 10, maxTokens: 100, answer: 10})
			require.Equal(t, http.StatusBadGateway, w.Code)
			requests, tokens := s.taken(t, 1, 1)
			require.Zero(t, requests)
			require.Zero(t, tokens)
		})
	}
}

// An invalid request takes nothing of any budget.
func TestInvalidRequests(t *testing.T) {
	s := newSite(t, 1, model)
	for _, c := range []struct {
		key, body string
		status    int
	}{
		{"unknown key", `{"max_tokens":1}`, 401},
		{apiKey(0), `{"max_tokens":1`, 400},
		{apiKey(0), `{"max_tokens":0}`, 400},
		{apiKey(0), `{"max_tokens":401}`, 400},
		{apiKey(0), `{"max_tokens":1,"messages":[{"content":"` + strings.Repeat("word ", tokensPerMinute+1) + `"}]}`, 400},
		{apiKey(0), strings.Repeat(" ", maxBody+1), 400},
		{apiKey(0), `{"max_tokens":1}`, 502}, // it asks the model for nothing
	} {
		w, _ := s.ask(t, t.Context(), c.key, c.body)
		require.Equal(t, c.status, w.Code, "%.80s", c.body)
	}
	require.Zero(t, s.used.most())
}
