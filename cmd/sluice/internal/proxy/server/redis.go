package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/redislimit"
)

// prepareRedis has resets by other proxies on the same Redis server reach this one, prints when that server no longer decides and
// when it decides again, and has it connected and its scripts loaded. The first message comes when listening is closed.
func (p *Proxy) prepareRedis(ctx context.Context, listening <-chan struct{}) {
	if p.store == nil {
		return
	}
	following := limits.FollowResets(ctx, p.store, p.id, p.say, func() *limits.Set { return p.state.Load().limits })
	watching := p.store.Watch(ctx, func(err error) {
		p.redisDown.Store(err != nil)
		select {
		case <-listening:
		case <-ctx.Done():
			return
		}
		if err == nil {
			p.say("redis is reachable again; it decides")
		} else {
			p.say("%s; requests get 503, or pass where fail-open is true, until it decides again; retrying", redisReason(err))
		}
	})
	p.state.Load().limits.Warm()
	<-following
	<-watching
}

// redisReason is [shared.Reason] with the setting that bounds the time for a decision.
func redisReason(err error) string {
	if errors.Is(err, redislimit.ErrTimeout) {
		return shared.Reason(err) + " (redis-timeout)"
	}
	return shared.Reason(err)
}

// policyLog prints what httplimit logs about policies in the words of the command. Other records go to its Handler.
type policyLog struct {
	slog.Handler

	p *Proxy
}

func newPolicyLog(p *Proxy) *slog.Logger {
	return slog.New(policyLog{cli.NewLogger(p.say).Handler(), p})
}

// Handle implements [slog.Handler].
func (h policyLog) Handle(_ context.Context, r slog.Record) error {
	attrs := make(map[string]any)
	r.Attrs(func(a slog.Attr) bool {
		attrs[a.Key] = a.Value.Any()
		return true
	})
	err, _ := attrs["error"].(error)
	what := err.Error()
	switch {
	case r.Level < slog.LevelError:
		what = "in shadow; it would have rejected a request: " + what
	case shared.IsStore(err) && h.p.redisDown.Load():
		return nil // which prepareRedis has said
	case shared.IsStore(err):
		what = redisReason(err) + "; the request gets 503, or passes if fail-open is true"
	}
	others, _ := attrs["others"].(int64)
	h.p.say("policy %s: %s%s", attrs["policy"], what, service.Suppressed(int(others)))
	return nil
}
