package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	accounts = 10
	pause    = time.Second // between two visits of a client; longer than any answer takes
)

func accountName(i int) string { return fmt.Sprint("account-", i) }
func apiKey(i int) string      { return fmt.Sprint("key-", i) }

// visit is one request of a client.
type visit struct {
	account   int
	prompt    int // tokens
	maxTokens int
	answer    int // tokens that the model will stream
	leaves    int // tokens of the answer after which the client hangs up; 0: it stays
}

// newVisit returns a random visit. Accounts with odd numbers request long answers.
func newVisit(account int, random *rand.Rand) visit {
	v := visit{account: account, prompt: 4 + random.IntN(40), maxTokens: 60}
	if account%2 == 1 {
		v.maxTokens = maxAnswer
	}
	v.answer = min(1+int(random.ExpFloat64()*float64(v.maxTokens)/3), v.maxTokens)
	if random.IntN(5) == 0 {
		v.leaves = 1 + random.IntN(v.answer)
	}
	return v
}

// tokens returns the number of tokens that the model streams until the client disconnects.
func (v visit) tokens() int {
	if v.leaves == 0 {
		return v.answer
	}
	chunks := (v.leaves + chunkTokens - 1) / chunkTokens
	return min(chunks*chunkTokens, v.answer)
}

// used returns the cost of the visit.
func (v visit) used() int { return v.prompt + v.tokens() }

// took returns how long the visit takes.
func (v visit) took() time.Duration {
	return time.Duration((v.tokens()+chunkTokens-1)/chunkTokens) * chunkTime
}

// body returns the question.
func (v visit) body() (string, error) {
	text := fmt.Sprintf(wish, v.answer) + strings.Repeat(" rain", v.prompt-4)
	body, err := json.Marshal(question{Messages: []message{{Role: "user", Content: text}}, MaxTokens: v.maxTokens})
	return string(body), err
}

// load makes the requests of many clients until a deadline.
type load struct {
	clients int
	time    time.Duration
	gateway string // URL
}

// run returns how many requests were permitted and how many were rejected.
func (l *load) run(ctx context.Context) (passed, rejected int, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	stop := time.Now().Add(l.time)
	for n := range l.clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			next := time.Now().Add(time.Duration(random.Int64N(int64(pause))))
			for ; next.Before(stop) && sleep(ctx, next) == nil; next = next.Add(pause) {
				ok, failed := newVisit(n%accounts, random).pay(ctx, l.gateway)
				mu.Lock()
				err = errors.Join(err, failed)
				if ok {
					passed++
				} else {
					rejected++
				}
				mu.Unlock()
				if failed != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return passed, rejected, errors.Join(err, ctx.Err())
}

// inFlight returns how much the concurrent requests of an account can cost beyond their estimates.
func (l *load) inFlight() int {
	clients := (l.clients + accounts - 1) / accounts
	return clients * (maxAnswer - estimate(0, maxAnswer))
}

// pay makes the visit and reports whether it was permitted.
func (v visit) pay(ctx context.Context, gateway string) (passed bool, err error) {
	body, err := v.body()
	if err != nil {
		return false, err
	}
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway, strings.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Authorization", "Bearer "+apiKey(v.account))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return true, v.listen(answer)
	case http.StatusTooManyRequests:
		for _, field := range []string{"Retry-After", "RateLimit", "RateLimit-Policy"} {
			if answer.Header.Get(field) == "" {
				return false, fmt.Errorf("an answer 429 without %s", field)
			}
		}
		return false, nil
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	return false, fmt.Errorf("%s: %s", answer.Status, text)
}

// listen reads the answer to its end, or until the client disconnects.
func (v visit) listen(answer *http.Response) error {
	heard := 0
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		heard = count(lines.Text(), heard)
		if v.leaves > 0 && heard >= v.leaves {
			return nil
		}
	}
	if used := answer.Trailer.Get(usedField); lines.Err() == nil && used != strconv.Itoa(v.used()) {
		return fmt.Errorf("an answer cost %q tokens, and not %d", used, v.used())
	}
	return lines.Err()
}

// sleep waits until t, or until ctx ends.
func sleep(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
