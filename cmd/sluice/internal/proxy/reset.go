package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// resetsAtOnce is how many limiters on a server of Redis are reset at a time, each of which is a round trip.
const resetsAtOnce = 32

// postReset answers POST /limits/{name}/reset?key=VALUE: it makes the limiters of one key as new, or those of all keys if
// there is no key in the URL.
func (p *proxy) postReset(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	for name := range query {
		if name != "key" { // a mistake here would reset all keys
			err = errors.Join(err, fmt.Errorf("unknown parameter %q, want key", name))
		}
	}
	if n, _ := r.Body.Read(make([]byte, 1)); n > 0 {
		err = errors.Join(err, errors.New("want the key in the URL, as in ?key=192.0.2.1, and no body"))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := r.PathValue("name")
	ctx := context.WithoutCancel(r.Context()) // half a reset is none
	n, err := p.reset(ctx, name, query["key"])
	switch {
	case errors.Is(err, errNoPolicy):
		http.Error(w, fmt.Sprintf("no policy is named %q", name), http.StatusNotFound)
	case errors.Is(err, errStore):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		p.say("policy %s is reset: limiters: %d", name, n)
		writeJSON(w, map[string]int{"reset": n})
	}
}

var errStore = errors.New("redis is unreachable")

// resetMessage notifies the other proxies on a server of Redis that limits were reset there.
type resetMessage struct {
	From   string   `json:"from"` // a proxy
	Policy string   `json:"policy"`
	Key    []string `json:"key,omitempty"` // none: all
}

const resetChannel = "sluice/reset"

// reset makes limiters of a policy as new: those of one key, or all of them if key is empty. It returns how many.
func (p *proxy) reset(ctx context.Context, name string, key []string) (int, error) {
	limits, values, err := p.resettable(name, key)
	if err != nil {
		return 0, err
	}
	var names []string // of the policy's limiters on the server, if all are to be reset
	if len(key) == 0 && slices.ContainsFunc(limits, (*limit).isByKeyOnServer) {
		if names, err = p.store.Names(ctx, onServer(name+"/")); err != nil {
			return 0, fmt.Errorf("%w: %w", errStore, err)
		}
	}
	n := 0
	for _, l := range limits {
		also, err := l.reset(ctx, values, names)
		if n += also; err != nil {
			return n, fmt.Errorf("%w: %w", errStore, err)
		}
	}
	if p.store == nil {
		return n, nil
	}
	text, err := json.Marshal(resetMessage{p.id, name, key})
	if err != nil {
		return n, err
	}
	if err := p.store.Publish(ctx, resetChannel, string(text)); err != nil {
		return n, fmt.Errorf("%w: %w", errStore, err)
	}
	return n, nil
}

// resettable returns the limits of a policy that are for a key, or all of them without one, and the values of the key as
// requests have them.
func (p *proxy) resettable(name string, key []string) (limits []*limit, values []config.Value, err error) {
	for _, policy := range p.state.Load().policies {
		if policy.Name != name {
			continue
		}
		if len(key) == 0 {
			return append(policy.all(), slices.Concat(policy.overrides...)...), nil, nil
		}
		if values, err = policy.Key.Values(key); err != nil {
			return nil, nil, err
		}
		return policy.limitsOf(values), values, nil
	}
	return nil, nil, errNoPolicy
}

// followResets forgets, until ctx is done, what this proxy remembers of limits that other proxies on the same server of Redis
// have reset. It does not reset them: what was taken since then counts. ready is closed when it does so, or when Redis does not answer.
func (p *proxy) followResets(ctx context.Context) (ready <-chan struct{}) {
	if p.store == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return p.store.Subscribe(ctx, resetChannel, func(text string) {
		var m resetMessage
		if json.Unmarshal([]byte(text), &m) != nil || m.From == p.id {
			return
		}
		limits, values, err := p.resettable(m.Policy, m.Key)
		if err != nil {
			return // its file is another
		}
		for _, l := range limits {
			l.forget(values)
		}
	})
}

// reset makes the limiter of a key as new, or all of them for no values: also those on a server of Redis that other proxies
// have made, whose names, in order, are among those of the policy. It returns how many.
func (m *limit) reset(ctx context.Context, key []config.Value, ofPolicy []string) (int, error) {
	done := m.resetLive(key)
	if !m.isByKeyOnServer() {
		return len(done), nil
	}
	names := m.namesAmong(ofPolicy)
	if len(key) > 0 {
		for _, name := range m.names(key) { // to another proxy the key may be one of its group
			has, err := m.store.Has(ctx, m.onServer(name))
			if err != nil {
				return len(done), err
			}
			if has {
				names = append(names, name)
			}
		}
	}
	var n atomic.Int64
	atOnce(resetsAtOnce, names, func(name string) {
		if done[name] {
			return
		}
		if f, err := m.follow(name); err == nil {
			f.reset()
			_ = f.Close()
			n.Add(1)
		}
	})
	return len(done) + int(n.Load()), nil
}

// forget has the limiters of this process ask the server for what it has.
func (m *limit) forget(key []config.Value) {
	if m.store != nil {
		atOnce(resetsAtOnce, m.followers(key), (*follower).ask)
	}
}

// followers returns the live limiter of a key, or all of them for no values.
func (m *limit) followers(key []config.Value) []*follower {
	if len(key) == 0 {
		return slices.Collect(m.all)
	}
	if f := m.live(key); f != nil {
		return []*follower{f}
	}
	return nil
}

// resetLive resets the limiters of this process, and returns their names.
func (m *limit) resetLive(key []config.Value) map[string]bool {
	var mu sync.Mutex
	done := make(map[string]bool)
	atOnce(resetsAtOnce, m.followers(key), func(f *follower) {
		if f.reset() {
			mu.Lock()
			defer mu.Unlock()
			done[f.key] = true
		}
	})
	return done
}

// isByKeyOnServer reports whether the server may have limiters to reset that this process does not.
func (m *limit) isByKeyOnServer() bool {
	return m.store != nil && m.one == nil && m.id.kind != spec.Concurrency && m.id.kind != spec.Unlimited
}

// namesAmong returns the names of the limit's own limiters among those on the server, which are in order.
func (m *limit) namesAmong(ofPolicy []string) (names []string) {
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

// reset makes f as new. It reports false for what has nothing to forget: what is held of a concurrency limit stays held.
func (f *follower) reset() bool {
	r, ok := f.limiter.(core.Resetter)
	if ok {
		r.Reset()
	}
	return ok
}

// atOnce calls f for each item, n of them at a time.
func atOnce[T any](n int, items []T, f func(T)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, len(items)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				f(items[i])
			}
		})
	}
	all.Wait()
}
