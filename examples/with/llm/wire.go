package main

import "strings"

// The wire format is a subset of the APIs of language models. A question is JSON, and the answer is a stream of
// server-sent events, each with a chunk. The last chunk reports the usage.

type question struct {
	Messages  []message `json:"messages"`
	MaxTokens int       `json:"max_tokens"` // max tokens of the answer
}

type message struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type chunk struct {
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Delta message `json:"delta"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// tokens returns the number of tokens in a text. In this example, a token is a word.
func tokens(text string) int { return len(strings.Fields(text)) }

// prompt returns the number of tokens in the question.
func (q question) prompt() int {
	n := 0
	for _, m := range q.Messages {
		n += tokens(m.Content)
	}
	return n
}

// text returns the chunk's text.
func (c chunk) text() string {
	var text strings.Builder
	for _, choice := range c.Choices {
		text.WriteString(choice.Delta.Content)
	}
	return text.String()
}
