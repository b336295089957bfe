package partition

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/anylimiter"
)

var (
	errNoRoom  = errors.New("partition: no room")
	errUnequal = errors.New("partition: the key does not equal itself, as NaN does not")
	errNilNew  = errors.New("New returned a nil limiter")
)

// making is a partition whose New is running.
type making struct {
	done chan struct{} // closed when New has returned, or the Keyed is closed; nil: no request waits
}

// end resumes the requests that wait. Keyed.mu is held.
func (m *making) end() {
	if m.done != nil {
		close(m.done)
	}
}

// enter begins a visit of the key's partition, which is made if it is not live; the error is
// errNoRoom if there is no room for it.
func (k *Keyed[R, K]) enter(ctx context.Context, key K) (visit[R, K], error) {
	if unequal(key, key) {
		return visit[R, K]{}, errUnequal
	}
	k.look(looksPerNewKey)
	for tries := 0; ; {
		v, r, err := k.beginOrReserve(key)
		switch {
		case err == errNoRoom && tries < triesForRoom && k.makeRoom(): //nolint:errorlint // this very value
			tries++
		case err != nil || v.entry != nil:
			return v, err
		case r.wait == nil:
			return k.make(key, r.making)
		default:
			select {
			case <-r.wait:
			case <-ctx.Done():
				return v, ctx.Err()
			}
		}
	}
}

func unequal[K comparable](a, b K) bool { return a != b }

// reservation is a partition that is being made.
type reservation struct {
	making *making
	wait   <-chan struct{} // its done; nil: the caller makes it
}

// beginOrReserve begins a visit of the key's partition if it is live. Else it returns the
// reservation of its making, the caller's own if no other request makes it yet.
func (k *Keyed[R, K]) beginOrReserve(key K) (v visit[R, K], r reservation, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return v, r, core.ErrClosed
	}
	if e := k.find(key); e != nil {
		v, _ = e.begin() // it is not dropped: those leave the map under mu
		return v, r, nil
	}
	if m := k.making[key]; m != nil {
		if m.done == nil {
			m.done = make(chan struct{})
		}
		return v, reservation{m, m.done}, nil
	}
	if k.places >= k.o.MaxPartitions {
		return v, r, errNoRoom
	}
	k.places++
	m := new(making)
	k.making[key] = m
	return v, reservation{m, nil}, nil
}

// make calls New for the key, whose making is the caller's, and begins a visit of the new
// partition, pinned.
func (k *Keyed[R, K]) make(key K, m *making) (visit[R, K], error) {
	var e *entry[R, K]
	defer func() {
		if e == nil { // an error, or New panicked or ended the goroutine
			k.finish(key, m, nil)
		}
	}()
	l, err := k.o.New(key)
	if err == nil && anylimiter.IsNil(l) {
		err = errNilNew
	}
	if err != nil {
		return visit[R, K]{}, k.explain(err)
	}
	e = &entry[R, K]{k: k, key: key, limiter: l, retires: retires(l)}
	e.word.Store(onePin)
	if !k.finish(key, m, e) {
		_ = closeLimiter(l)
		return visit[R, K]{}, core.ErrClosed
	}
	return visit[R, K]{e, true}, nil
}

func (k *Keyed[R, K]) explain(err error) error {
	if k.o.Name == "" {
		return fmt.Errorf("partition: no limiter for the key: %w", err)
	}
	return fmt.Errorf("partition: %q: no limiter for the key: %w", k.o.Name, err)
}

// finish ends the making of a partition: e, or nil if it failed. It reports false if the
// Keyed was closed meanwhile.
func (k *Keyed[R, K]) finish(key K, m *making, e *entry[R, K]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.making[key] != m {
		return false
	}
	delete(k.making, key)
	m.end()
	if e == nil {
		k.places--
		return true
	}
	k.live.Store(key, e)
	k.table.add(e)
	k.counts.Created++
	return true
}

// closes reports whether Close closes the limiter.
func closes(l core.Limiter) bool {
	_, ok := l.(io.Closer)
	return ok
}
