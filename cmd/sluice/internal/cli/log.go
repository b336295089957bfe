package cli

import (
	"bytes"
	"context"
	"log/slog"
)

// NewLogger returns a logger that prints its records with say: the message, a colon, and the attributes.
func NewLogger(say func(format string, args ...any)) *slog.Logger {
	return slog.New(lineHandler{say: say})
}

type lineHandler struct {
	say  func(format string, args ...any)
	with func(slog.Handler) slog.Handler // adds the attributes of a logger; nil: it has none
}

// Enabled implements [slog.Handler].
func (lineHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements [slog.Handler].
func (h lineHandler) Handle(ctx context.Context, r slog.Record) error {
	var b bytes.Buffer
	var attributes slog.Handler = slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: onlyAttributes})
	if h.with != nil {
		attributes = h.with(attributes)
	}
	if err := attributes.Handle(ctx, r); err != nil {
		return err
	}
	if text := bytes.TrimSpace(b.Bytes()); len(text) > 0 {
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
	return h.adding(func(next slog.Handler) slog.Handler { return next.WithAttrs(attributes) })
}

// WithGroup implements [slog.Handler].
func (h lineHandler) WithGroup(name string) slog.Handler {
	return h.adding(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h lineHandler) adding(also func(slog.Handler) slog.Handler) slog.Handler {
	before := h.with
	return lineHandler{h.say, func(next slog.Handler) slog.Handler {
		if before != nil {
			next = before(next)
		}
		return also(next)
	}}
}
