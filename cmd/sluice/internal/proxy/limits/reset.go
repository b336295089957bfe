package limits

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/spec"
)

// resetsAtOnce is how many limiters on a Redis server are reset at a time, each of which is a round trip.
const resetsAtOnce = 32

// resetMessage notifies the other proxies on a Redis server that limits were reset there.
type resetMessage struct {
	From   string   `json:"from"` // a proxy
	Policy string   `json:"policy"`
	Key    []string `json:"key,omitempty"` // none: all
}

const resetChannel = "sluice/reset"

// ErrNotNotified is matched by the error of a reset that was made, but that only this proxy knows of.
var ErrNotNotified = errors.New("the other proxies were not notified and may reject until their Retry-After is over")

// Reset resets limiters of a policy: those of one key, or all of them if key is empty. It returns how many, and
// notifies the other proxies on the same Redis server; id tells this one from them. It stops at the first error of the server.
func (s *Set) Reset(ctx context.Context, id, policy string, key []string) (int, error) {
	limits, values, err := s.Of(policy, key)
	if err != nil {
		return 0, err
	}
	var names []string // of the policy's limiters on the server, if all are to be reset
	if len(key) == 0 && slices.ContainsFunc(limits, (*Limit).isByKeyOnServer) {
		if names, err = s.store.Names(ctx, onServer(policy+"/")); err != nil {
			return 0, err
		}
	}
	n := 0
	for _, l := range limits {
		also, err := l.reset(ctx, values, names)
		if n += also; err != nil {
			return n, err
		}
	}
	if s.store == nil {
		return n, nil
	}
	text, err := json.Marshal(resetMessage{id, policy, key})
	if err != nil {
		return n, err
	}
	if err := s.store.Publish(ctx, resetChannel, string(text)); err != nil {
		return n, fmt.Errorf("%s, but %w: %s", service.Resets(n, key), ErrNotNotified, shared.Reason(err))
	}
	return n, nil
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
		limits, values, err := now().Of(m.Policy, m.Key)
		if err != nil {
			return // its file is another
		}
		for _, l := range limits {
			l.forget(values)
		}
	}, func(refused error) {
		if refused == nil {
			say("subscribed to %s; resets by other proxies reach this one again", resetChannel)
			return
		}
		say("cannot subscribe to %s: %s; resets by other proxies do not reach this one; retrying", resetChannel, shared.Reason(refused))
	})
}

// reset resets the limiter of a key, or all of them for no values: also those on a Redis server that other proxies have made,
// whose names, in order, are among those of the policy. It returns how many.
func (m *Limit) reset(ctx context.Context, key []string, ofPolicy []string) (int, error) {
	done, err := m.resetLive(key)
	if err != nil || !m.isByKeyOnServer() {
		return len(done), err
	}
	onServer := m.namesAmong(ofPolicy)
	if len(key) > 0 {
		for _, name := range names(key) { // to another proxy the key may be one of its group
			has, err := m.store.Has(ctx, m.onServer(name))
			if err != nil {
				return len(done), err
			}
			if has {
				onServer = append(onServer, name)
			}
		}
	}
	var n atomic.Int64
	err = atOnce(resetsAtOnce, onServer, func(name string) error {
		if done[name] {
			return nil
		}
		f, err := m.follow(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if _, err := f.reset(); err != nil {
			return err
		}
		n.Add(1)
		return nil
	})
	return len(done) + int(n.Load()), err
}

// forget has the limiters of this process ask the server for what it has.
func (m *Limit) forget(key []string) {
	if m.store != nil {
		_ = atOnce(resetsAtOnce, m.liveLimiters(key), func(f *liveLimiter) error {
			f.refresh()
			return nil
		})
	}
}

// liveLimiters returns the live limiter of a key, or all of them for no values.
func (m *Limit) liveLimiters(key []string) []*liveLimiter {
	if len(key) == 0 {
		return slices.Collect(m.live)
	}
	if f := m.of(key); f != nil {
		return []*liveLimiter{f}
	}
	return nil
}

// resetLive resets the limiters of this process, and returns their names.
func (m *Limit) resetLive(key []string) (map[string]bool, error) {
	var mu sync.Mutex
	done := make(map[string]bool)
	err := atOnce(resetsAtOnce, m.liveLimiters(key), func(f *liveLimiter) error {
		ok, err := f.reset()
		if ok {
			mu.Lock()
			defer mu.Unlock()
			done[f.name] = true
		}
		return err
	})
	return done, err
}

// isByKeyOnServer reports whether the server may have limiters to reset that this process does not.
func (m *Limit) isByKeyOnServer() bool {
	return m.store != nil && m.id.key != "" && m.id.kind != spec.Concurrency && m.id.kind != spec.Unlimited
}

// namesAmong returns the names of the limit's own limiters among those on the server, which are in order.
func (m *Limit) namesAmong(ofPolicy []string) (names []string) {
	prefix := m.onServer("")
	first, _ := slices.BinarySearch(ofPolicy, prefix)
	for _, found := range ofPolicy[first:] {
		escaped, ok := strings.CutPrefix(found, prefix)
		if !ok {
			break
		}
		name, err := url.QueryUnescape(escaped)
		group, isGroup := strings.CutPrefix(name, "~")
		isGroup = isGroup && strings.Trim(group, "0123456789") == ""
		if err == nil && (isGroup || strings.HasPrefix(name, "=")) { // else it is of a limit with a longer name
			names = append(names, name)
		}
	}
	return names
}

// atOnce calls f for each item, n of them at a time. It returns the first error in the order of the items.
func atOnce[T any](n int, items []T, f func(T) error) error {
	errs := make([]error, len(items))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, len(items)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				errs[i] = f(items[i])
			}
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}
