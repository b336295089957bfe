package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
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
	watching := p.watchRedis(ctx, listening)
	p.state.Load().limits.Warm()
	<-following
	<-watching
}

// watchRedis prints when Redis no longer decides, with what happens to requests, and when it decides again.
func (p *Proxy) watchRedis(ctx context.Context, listening <-chan struct{}) (ready <-chan struct{}) {
	return p.store.Watch(ctx, func(err error) {
		p.redisDown.Store(err != nil)
		select {
		case <-listening:
		case <-ctx.Done():
			return
		}
		if err == nil {
			p.say("redis is reachable again; it decides")
			return
		}
		p.say("%s; %s until it decides again; retrying", redisReason(err), p.withoutRedis())
	})
}

// redisReason is [shared.Reason] with the setting that bounds the time for a decision.
func redisReason(err error) string {
	if errors.Is(err, redislimit.ErrTimeout) {
		return shared.Reason(err) + " (redis-budget)"
	}
	return shared.Reason(err)
}

// withoutRedis says what happens to requests while Redis does not decide.
func (p *Proxy) withoutRedis() string {
	open, closed := false, false
	for _, policy := range p.state.Load().limits.Policies {
		open, closed = open || policy.FailOpen, closed || !policy.FailOpen
	}
	switch {
	case open && closed:
		return "requests get 503, or pass where fail-open is true,"
	case open:
		return "requests pass"
	}
	return "requests get 503"
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
func (h policyLog) Handle(ctx context.Context, r slog.Record) error {
	var policy string
	var err error
	var more string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "policy":
			policy = a.Value.String()
		case "error":
			err, _ = a.Value.Any().(error)
		case "others":
			if n := a.Value.Int64(); n > 0 {
				more = fmt.Sprintf(" (%d more since the last message)", n)
			}
		}
		return true
	})
	switch {
	case policy == "" || err == nil:
		return h.Handler.Handle(ctx, r)
	case r.Level < slog.LevelError:
		h.p.say("policy %s: in shadow; it would have rejected a request: %v%s", policy, err, more)
	case !shared.IsStore(err):
		h.p.say("policy %s: %v%s", policy, err, more)
	case !h.p.redisDown.Load(): // otherwise watchRedis has said it
		h.p.say("policy %s: %s; %s%s", policy, redisReason(err), h.p.without(policy), more)
	}
	return nil
}

// without says what happens to a request of a policy that Redis has not decided.
func (p *Proxy) without(policy string) string {
	if found, err := p.state.Load().limits.Policy(policy); err == nil && found.FailOpen {
		return "the request passes"
	}
	return "the request gets 503"
}
