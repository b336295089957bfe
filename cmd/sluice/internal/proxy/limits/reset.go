package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// resetMessage notifies the other proxies on a Redis server that limits were reset there.
type resetMessage struct {
	From   string   `json:"from"` // a proxy
	Policy string   `json:"policy"`
	Key    []string `json:"key,omitempty"` // none: all
}

const resetChannel = "sluice/reset"

// ErrNotNotified is matched by the error of a reset that was made, but that only this proxy knows of.
var ErrNotNotified = errors.New("the other proxies were not notified and may reject until their Retry-After is over")

// Reset resets limiters of a policy: those of one key, or all that this process has if key is empty. It returns how many, and
// notifies the other proxies on the same Redis server; id tells this one from them. It stops at the first error of the server.
func (s *Set) Reset(ctx context.Context, id, policy string, key []string) (int, error) {
	var n atomic.Int64
	err := s.each(ctx, policy, key, s.store != nil, func(l core.Limiter, isNew bool) error {
		for _, p := range partsOf(l) {
			if on, ok := p.(*part); ok && isNew {
				if has, err := s.store.Has(ctx, on.name); !has || err != nil {
					return err
				}
			}
			done, err := reset(p)
			if err != nil {
				return err
			}
			if done {
				n.Add(1)
			}
		}
		return nil
	})
	done := int(n.Load())
	if err != nil || s.store == nil {
		return done, err
	}
	text, err := json.Marshal(resetMessage{id, policy, key})
	if err != nil {
		return done, err
	}
	if err := s.store.Publish(ctx, resetChannel, string(text)); err != nil {
		return done, fmt.Errorf("%s, but %w: %s", service.Resets(done, key), ErrNotNotified, shared.Reason(err))
	}
	return done, nil
}

// FollowResets forgets, until ctx is done, what this proxy remembers of limits that other proxies on the same Redis server
// have reset. It does not reset them: what was taken since then counts. ready is closed when it does so, or when Redis does
// not respond.
func FollowResets(ctx context.Context, store *shared.Store, id string, say func(string, ...any), now func() *Set) (ready <-chan struct{}) {
	return store.Subscribe(ctx, resetChannel, func(text string) {
		var m resetMessage
		if json.Unmarshal([]byte(text), &m) != nil || m.From == id {
			return
		}
		_ = now().each(ctx, m.Policy, m.Key, false, func(l core.Limiter, _ bool) error { // no error: its file may be another
			for _, p := range partsOf(l) {
				if on, ok := p.(*part); ok {
					_ = on.update(on.limit, m.Policy)
				}
			}
			return nil
		})
	}, func(refused error) {
		if refused == nil {
			say("subscribed to %s; resets by other proxies reach this one again", resetChannel)
			return
		}
		say("cannot subscribe to %s: %s; resets by other proxies do not reach this one; retrying", resetChannel, shared.Reason(refused))
	})
}

// atOnce is for how many limiters a function is called at a time: on a Redis server each call is a round trip.
const atOnce = 32

// each calls do for the limiters of a policy that this process has: those of one key, or all of them if key is empty. With makes,
// it also calls do for a new limiter if it has none for the key. It returns the first error.
func (s *Set) each(ctx context.Context, policy string, key []string, makes bool, do func(l core.Limiter, isNew bool) error) error {
	p, err := s.Policy(policy)
	if err != nil {
		return err
	}
	var values []string
	if len(key) > 0 {
		if values, err = p.Key.Values(key); err != nil {
			return err
		}
	}
	pool := core.Must(worker.New(worker.Options{Limiter: core.Unlimited(), Workers: atOnce}))
	all := pool.Group(ctx)
	for _, subject := range p.subjects() {
		if values == nil {
			for _, l := range subject.limiters.All() {
				all.Go(func(context.Context) error { return do(l, false) })
			}
			continue
		}
		l := subject.of(values)
		if l != nil {
			all.Go(func(context.Context) error { return do(l, false) })
		} else if makes {
			l, err := subject.fresh(values)
			if err != nil {
				return err
			}
			all.Go(func(context.Context) error {
				defer closeParts(l)
				return do(l, true)
			})
		}
	}
	return errors.Join(all.Wait(), pool.Close(ctx))
}

// fresh returns a limiter for a key that has none.
func (s *Subject) fresh(values []string) (core.Limiter, error) {
	return s.update(s.slot(s.terms.Load(), values, config.JoinKey(values)), nil)
}
