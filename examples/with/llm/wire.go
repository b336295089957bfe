package main

import "strings"

// What goes over the wire is a part of what the APIs of language models have: a question as JSON,
// and the answer as server-sent events, each with a chunk of it. The last chunk reports the usage.

type question struct {
	Messages  []message `json:"messages"`
	MaxTokens int       `json:"max_tokens"` // of the answer
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

// tokens returns how many tokens a text has. The tokens of this example are words.
func tokens(text string) int { return len(strings.Fields(text)) }

// prompt returns how many tokens the question has.
func (q question) prompt() int {
	n := 0
	for _, m := range q.Messages {
		n += tokens(m.Content)
	}
	return n
}

// text returns what the chunk adds to the answer.
func (c chunk) text() string {
	var text strings.Builder
	for _, choice := range c.Choices {
		text.WriteString(choice.Delta.Content)
	}
	return text.String()
}
