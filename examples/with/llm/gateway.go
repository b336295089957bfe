package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/httplimit"
)

const (
	maxAnswer = 400             // tokens
	maxBody   = 64 << 10        // bytes of a question
	usedField = "X-Tokens-Used" // the trailer with a request's actual cost
)

// gateway passes questions to a model server, within the limits of the caller's account.
type gateway struct {
	accounts map[string]string // accounts by API key
	model    string            // URL
	client   *http.Client
	bill     func(account string, tokens int) // called for each permitted request
}

// handler returns the gateway's handler. It checks the API key before it calls a limiter, so that a
// stranger cannot use up an account's limit.
func (g *gateway) handler(limits *httplimit.Limits) http.Handler {
	return g.read(limits.Policy("requests", "tokens")(http.HandlerFunc(g.answer)))
}

// call holds the facts about a request that the limits need.
type call struct {
	account  string
	body     []byte
	prompt   int // tokens
	estimate int // tokens, of the prompt and the answer
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// read parses a request into a call, for the limits and for next.
func (g *gateway) read(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		account, ok := g.accounts[key]
		if !ok {
			http.Error(w, "unknown API key", http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var q question
		if err == nil {
			err = json.Unmarshal(body, &q)
		}
		c := &call{account: account, body: body, prompt: q.prompt()}
		c.estimate = estimate(c.prompt, q.MaxTokens)
		if err != nil || q.MaxTokens < 1 || q.MaxTokens > maxAnswer || c.estimate > tokensPerMinute {
			http.Error(w, "not a question, or too long", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
	})
}

// estimate returns the tokens to take for a question. Most answers are much shorter than they may
// be, so the estimate assumes half of the maximum. If the answer is shorter, the rest is refunded. If it is
// longer, the limiter owes the rest.
func estimate(prompt, maxTokens int) int { return prompt + maxTokens/2 }

// answer forwards a permitted request to the model. It always reports the tokens used, also if the request fails.
func (g *gateway) answer(w http.ResponseWriter, r *http.Request) {
	c, used := callOf(r), 0
	w.Header().Set("Trailer", usedField)
	defer func() {
		w.Header().Set(usedField, strconv.Itoa(used))
		g.bill(c.account, used)
	}()
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodPost, g.model, bytes.NewReader(c.body))
	if err != nil {
		http.Error(w, "no model", http.StatusInternalServerError)
		return
	}
	events, err := g.client.Do(ask)
	if err != nil {
		http.Error(w, "the model does not answer", http.StatusBadGateway)
		return
	}
	defer events.Body.Close()
	if events.StatusCode != http.StatusOK {
		http.Error(w, "the model refuses", http.StatusBadGateway)
		return
	}
	used = c.prompt
	w.Header().Set("Content-Type", "text/event-stream")
	if relay(w, events.Body, &used) != nil {
		panic(http.ErrAbortHandler) // so that the client notices that the response is incomplete
	}
}

// relay forwards each event as it arrives and returns the number of tokens: the model's report at the end, or
// the tokens that have arrived if the stream ends early.
func relay(w http.ResponseWriter, events io.Reader, used *int) error {
	flush := http.NewResponseController(w)
	lines := bufio.NewScanner(events)
	for lines.Scan() {
		*used = count(lines.Text(), *used)
		if _, err := fmt.Fprintln(w, lines.Text()); err != nil {
			return err
		}
		if lines.Text() != "" {
			continue // the event continues
		}
		if err := flush.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}

// count returns the tokens used so far, including those in a line of an event.
func count(line string, used int) int {
	var c chunk
	data, ok := strings.CutPrefix(line, "data: ")
	if !ok || json.Unmarshal([]byte(data), &c) != nil {
		return used // such as [DONE]
	}
	if c.Usage != nil {
		return c.Usage.Prompt + c.Usage.Completion
	}
	return used + tokens(c.text())
}
