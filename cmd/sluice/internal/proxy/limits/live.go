package limits

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/spec"
)

// live is a limiter that follows the terms of its subject.
type live struct {
	slot

	mu    sync.Mutex // one change at a time
	state atomic.Pointer[state]
}

// state is what a live limiter is under some terms.
type state struct {
	limiter // all parts

	terms  *terms
	parts  []part
	former []limiter // before this one; requests in flight have their permits
}

// formers is how many former limiters are remembered, after changes that added, removed or replaced parts.
const formers = 4

// part is the limiter of one of several limits.
type part struct {
	limiter

	limit *spec.Limit
	nth   int          // of its kind
	local core.Limiter // decides while the Redis server is unreachable; nil if none does
	name  string       // on the Redis server
}

// limiter is what all limiters of core and redislimit are.
type limiter interface {
	core.Limiter
	core.Reporter
	core.Idler
	io.Closer
}

func newLive(k slot) *live {
	f := &live{slot: k}
	f.state.Store(new(state))
	f.now()
	return f
}

// now returns what the limiter is under the present terms. The parts of kinds that stay are updated, and others are new.
func (f *live) now() *state {
	before := f.state.Load()
	if before.terms == f.subject.terms.Load() {
		return before
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before = f.state.Load()
	next := &state{limiter: before.limiter, terms: f.subject.terms.Load(), former: before.former}
	next.parts = f.parts(before.parts, next.terms)
	stays := 0
	var all []core.Limiter
	for _, p := range next.parts {
		all = append(all, p.limiter)
		if slices.ContainsFunc(before.parts, func(old part) bool { return old.limiter == p.limiter }) {
			stays++
		}
	}
	switch {
	case stays == len(all) && stays == len(before.parts) && before.limiter != nil: // it knows its leases
	case len(all) == 0:
		next.limiter = core.Unlimited().(limiter)
	case len(all) == 1:
		next.limiter = next.parts[0].limiter
	default:
		next.limiter = core.Must(core.Chain(all...))
	}
	if next.limiter != before.limiter && before.limiter != nil {
		next.former = append([]limiter{before.limiter}, before.former[:min(len(before.former), formers-1)]...)
	}
	f.state.Store(next)
	return next
}

// parts returns the parts for some terms. A part is kept for a limit that is the same, or else for one of its kind. On a Redis
// server that is the one with its number, as for a proxy that starts with these terms.
func (f *live) parts(before []part, t *terms) (all []part) {
	nth := make(map[spec.Kind]int)
	for _, l := range f.limits(t) {
		if l.Kind != spec.Unlimited {
			nth[l.Kind]++
			all = append(all, part{limit: &l.Limit, nth: nth[l.Kind]})
		}
	}
	left := slices.Clone(before)
	keep := func(p *part, is func(part) bool) {
		if i := slices.IndexFunc(left, is); i >= 0 && p.limiter == nil {
			p.limiter, p.local, p.name = left[i].limiter, left[i].local, left[i].name
			if *left[i].limit != *p.limit {
				p.update(f.subject.Name)
			}
			left = slices.Delete(left, i, i+1)
		}
	}
	shared := f.subject.store != nil
	for i := range all {
		p := &all[i]
		keep(p, func(old part) bool { return *old.limit == *p.limit && (!shared || old.nth == p.nth) })
	}
	for i := range all {
		p := &all[i]
		keep(p, func(old part) bool { return old.limit.Kind == p.limit.Kind && (!shared || old.nth == p.nth) })
		if p.limiter == nil {
			_ = p.make(f.slot) // no error: one was made already
		}
	}
	return all
}

func (f *live) TryAcquire(permits int) core.Lease { return f.now().TryAcquire(permits) }

func (f *live) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return f.now().Acquire(ctx, permits)
}

func (f *live) Available() int { return f.now().Available() }

func (f *live) Statistics() core.Statistics { return f.now().Statistics() }

func (f *live) IdleFor() (time.Duration, bool) { return f.state.Load().IdleFor() }

// Close closes all parts.
func (f *live) Close() error {
	for _, p := range f.state.Load().parts {
		_ = p.Close()
	}
	return nil
}

// make makes the limiter of a slot.
func (p *part) make(k slot) (err error) {
	s := k.subject
	var made core.Limiter
	if s.store == nil {
		made, err = p.limit.New(s.Name)
	} else {
		p.name = p.onServer(k)
		o := redislimit.Options{Key: p.name}
		if s.what != requests { // a body that has started is not cut off because Redis is away
			if p.local, err = p.limit.New(s.Name); err != nil {
				return err
			}
			o.Unavailable, o.Local = redislimit.UseLocal, p.local
		}
		made, err = s.store.New(*p.limit, s.Name, o)
	}
	if err == nil {
		p.limiter = made.(limiter)
	}
	return err
}

// onServer returns what the limiter of a slot is named on a Redis server. The name has the whole identity, so that a proxy whose
// file has changed and one that starts with that file share the limiter.
func (p *part) onServer(k slot) string {
	s := k.subject
	name := fmt.Sprintf("%s/%s/%s-%d/%s", s.Name, s.what, p.limit.Kind, p.nth, s.key)
	if k.override != "" {
		name += "/" + url.QueryEscape(k.override)
	}
	switch {
	case k.group > 0:
		name += "~" + strconv.Itoa(k.group)
	case s.key != "":
		name += "=" + k.key
	}
	return "sluice/" + url.QueryEscape(name) // without characters that patterns and hash slots take for special
}

// update applies the limit. A limiter on a Redis server asks the server then, and remembers nothing older.
func (p *part) update(name string) {
	// The limit is valid and of the same kind, so the only error left is that the limiter is closed.
	_ = shared.Update(*p.limit, name, p.limiter)
	if p.local != nil {
		_ = p.limit.Update(p.local)
	}
}

// reset resets the limiter. It reports false for a concurrency limiter, whose permits stay held.
func (p *part) reset() (bool, error) {
	switch r := p.limiter.(type) {
	case interface{ TryReset() error }: // on a Redis server
		err := r.TryReset()
		return err == nil, err
	case core.Resetter:
		r.Reset()
		return true, nil
	}
	return false, nil
}
