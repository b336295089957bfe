package partition

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

var (
	errNoRoom  = errors.New("partition: no room")
	errUnequal = errors.New("partition: the key does not equal itself, as NaN does not")
	errNilNew  = errors.New("New returned a nil limiter")
)

// making is a partition whose New is running.
type making struct {
	done chan struct{} // closed when New has returned, or the Keyed is closed
}

// wait waits until New has returned; ctx may be none.
func (m *making) wait(ctx context.Context) error {
	if ctx == none {
		<-m.done
		return nil
	}
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter returns the key's partition, pinned: unpin must follow. It is made if there is none;
// the error is errNoRoom if there is no room for it.
func (k *Keyed[R, K]) enter(ctx context.Context, key K) (*entry[R, K], error) {
	if e := k.find(key); e != nil && e.pin() {
		return e, nil
	}
	if unequal(key, key) {
		return nil, errUnequal
	}
	k.look(looksPerNewKey)
	for tries := 0; ; {
		e, m, err := k.enterOrReserve(key)
		switch {
		case err == errNoRoom && tries < triesForRoom && k.makeRoom(): //nolint:errorlint // this very value
			tries++
		case err != nil || e != nil:
			return e, err
		case m.mine:
			return k.make(key, m.making)
		default:
			if err := m.wait(ctx); err != nil {
				return nil, err
			}
		}
	}
}

func unequal[K comparable](a, b K) bool { return a != b }

// reservation is a partition that is being made, and whether it is the caller that makes it.
type reservation struct {
	*making
	mine bool
}

// enterOrReserve returns the key's partition, pinned; or else the reservation of its making,
// the caller's own if no other request makes it yet.
func (k *Keyed[R, K]) enterOrReserve(key K) (*entry[R, K], reservation, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return nil, reservation{}, core.ErrClosed
	}
	if e := k.find(key); e != nil {
		e.pin() // it is not dropped: those leave the map under mu
		return e, reservation{}, nil
	}
	if m := k.making[key]; m != nil {
		return nil, reservation{m, false}, nil
	}
	if k.places >= k.o.MaxPartitions {
		return nil, reservation{}, errNoRoom
	}
	k.places++
	m := &making{make(chan struct{})}
	k.making[key] = m
	return nil, reservation{m, true}, nil
}

// make calls New for the key, whose making is the caller's, and returns the new partition,
// pinned.
func (k *Keyed[R, K]) make(key K, m *making) (*entry[R, K], error) {
	var e *entry[R, K]
	defer func() {
		if e == nil { // an error, or New panicked or ended the goroutine
			k.finish(key, m, nil)
		}
	}()
	l, err := k.o.New(key)
	if err == nil && argument.IsNil(l) {
		err = errNilNew
	}
	if err != nil {
		return nil, k.explain(err)
	}
	e = &entry[R, K]{partition: partition[R, K]{k, key}, limiter: l, retires: retires(l)}
	e.word.Store(onePin)
	if !k.finish(key, m, e) {
		_ = closeLimiter(l)
		return nil, core.ErrClosed
	}
	return e, nil
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
	close(m.done)
	if e == nil {
		k.places--
		return true
	}
	k.live.Store(key, e)
	k.ring.add(e)
	k.counts.Created++
	return true
}

// closes reports whether Close closes the limiter.
func closes(l core.Limiter) bool {
	_, ok := l.(io.Closer)
	return ok
}
