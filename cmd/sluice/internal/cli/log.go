package cli

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
)

// NewLogger returns a logger that prints its records with say: the message, a colon, and the attributes.
func NewLogger(say func(format string, args ...any)) *slog.Logger {
	text := new(bytes.Buffer)
	return slog.New(lineHandler{slog.NewTextHandler(text, &slog.HandlerOptions{ReplaceAttr: onlyAttributes}), text, new(sync.Mutex), say})
}

// lineHandler is a handler that writes the attributes to text, and prints it behind the message.
type lineHandler struct {
	slog.Handler

	text *bytes.Buffer
	mu   *sync.Mutex // guards text
	say  func(format string, args ...any)
}

// Handle implements [slog.Handler].
func (h lineHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Reset()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	if text := bytes.TrimSpace(h.text.Bytes()); len(text) > 0 {
		h.say("%s: %s", r.Message, text)
	} else {
		h.say("%s", r.Message)
	}
	return nil
}

// onlyAttributes removes what each record has.
func onlyAttributes(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// WithAttrs implements [slog.Handler].
func (h lineHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attributes)
	return h
}

// WithGroup implements [slog.Handler].
func (h lineHandler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
