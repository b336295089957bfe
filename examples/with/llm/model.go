package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A chunk of an answer.
const (
	chunkTokens = 10
	chunkTime   = 20 * time.Millisecond // between two chunks
)

// wish is a prompt that requests an answer of the given number of words.
const wish = "Write %d words about"

// model is a model server. It streams the requested number of words and reports its usage.
func model(w http.ResponseWriter, r *http.Request) {
	var q question
	words := -1
	err := json.NewDecoder(r.Body).Decode(&q)
	if err == nil && len(q.Messages) > 0 {
		_, err = fmt.Sscanf(q.Messages[0].Content, wish, &words)
	}
	if err != nil || words < 0 {
		http.Error(w, "what shall I write?", http.StatusBadRequest)
		return
	}
	words = min(words, q.MaxTokens)
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(chunkTime)
	defer tick.Stop()
	for left := words; left > 0; left -= chunkTokens {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		text := strings.Repeat("rain ", min(left, chunkTokens))
		if send(w, chunk{Choices: []choice{{message{Content: text}}}}) != nil {
			return
		}
	}
	if send(w, chunk{Usage: &usage{Prompt: q.prompt(), Completion: words}}) == nil {
		_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

// send sends one event.
func send(w http.ResponseWriter, c chunk) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
