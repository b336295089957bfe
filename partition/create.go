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

// enter begins a visit of the key's partition, which is made if it is not live, or of the overflow
// entry if there is no room for it.
func (k *Keyed[R, K]) enter(ctx context.Context, key K) (visit[R, K], error) {
	if unequal(key, key) {
		return visit[R, K]{}, errUnequal
	}
	k.look(looksPerNewKey)
	for tries := 0; ; {
		v, made, err := k.beginOrReserve(key)
		switch {
		case err == errNoRoom && tries < triesForRoom && k.makeRoom(): //nolint:errorlint // this very value
			tries++
		case err == errNoRoom: //nolint:errorlint // this very value
			v, _ = k.overflow.begin()
			return v, nil
		case err != nil || v.entry != nil:
			return v, err
		case made == nil:
			return k.make(key)
		default:
			select {
			case <-made:
			case <-ctx.Done():
				return v, ctx.Err()
			}
		}
	}
}

func unequal[K comparable](a, b K) bool { return a != b }

// beginOrReserve begins a visit of the key's partition if it is live. Else it returns the channel
// that is closed when another request has made the partition, or nil if the caller has to make it,
// for which it now has a place.
func (k *Keyed[R, K]) beginOrReserve(key K) (v visit[R, K], made chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return v, nil, core.ErrClosed
	}
	if e := k.find(key); e != nil {
		v, _ = e.begin() // it is not dropped: those leave the map under mu
		return v, nil, nil
	}
	if made, ok := k.making[key]; ok {
		if made == nil {
			made = make(chan struct{})
			k.making[key] = made
		}
		return v, made, nil
	}
	if k.places >= k.o.MaxPartitions {
		return v, nil, errNoRoom
	}
	k.places++
	k.making[key] = nil
	return v, nil, nil
}

// make calls New for the key, for which the caller has a place, and begins a visit of the new
// partition, pinned.
func (k *Keyed[R, K]) make(key K) (visit[R, K], error) {
	var e *entry[R, K]
	defer func() {
		if e == nil { // an error, or New panicked or ended the goroutine
			k.finish(key, nil)
		}
	}()
	l, err := k.o.New(key)
	if err == nil && anylimiter.IsNil(l) {
		err = errNilNew
	}
	if err != nil {
		return visit[R, K]{}, k.explain(err)
	}
	e = &entry[R, K]{k: k, key: key, limiter: l, retires: retires(l), closes: closes(l)}
	e.word.Store(onePin)
	if !k.finish(key, e) {
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
func (k *Keyed[R, K]) finish(key K, e *entry[R, K]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return false
	}
	if made := k.making[key]; made != nil {
		close(made)
	}
	delete(k.making, key)
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
