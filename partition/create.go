package partition

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

var (
	errNoRoom  = errors.New("partition: no room")
	errUnequal = errors.New("partition: the key does not equal itself, as NaN does not")
	errNilNew  = errors.New("New returned a nil limiter")
)

// enter returns the key's entry, which is created if it is not live, or the overflow entry if there is
// no room for it.
func (k *Keyed[R, K]) enter(ctx context.Context, key K) (*entry[R, K], error) {
	if unequal(key, key) {
		return nil, errUnequal
	}
	k.sweepSome(looksPerNewKey)
	for tries := 0; ; {
		e, created, err := k.findOrReserve(key)
		switch {
		case err == errNoRoom && tries < triesForRoom && k.makeRoom(): //nolint:errorlint // this very value
			tries++
		case err == errNoRoom: //nolint:errorlint // this very value
			return k.overflow, nil
		case err != nil || e != nil:
			return e, err
		case created == nil:
			return k.create(key)
		default:
			select {
			case <-created:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

func unequal[K comparable](a, b K) bool { return a != b }

// findOrReserve returns the key's entry if it is live. Otherwise it returns the channel that is closed when
// another request has created the partition, or nil if the caller has to create it. The caller then has a
// place for it.
func (k *Keyed[R, K]) findOrReserve(key K) (e *entry[R, K], created chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return nil, nil, core.ErrClosed
	}
	if e := k.find(key); e != nil {
		return e, nil, nil
	}
	if created, ok := k.creating[key]; ok {
		if created == nil {
			created = make(chan struct{})
			k.creating[key] = created
		}
		return nil, created, nil
	}
	if k.places >= k.o.MaxPartitions {
		return nil, nil, errNoRoom
	}
	k.places++
	k.creating[key] = nil
	return nil, nil, nil
}

// create calls New for the key, for which the caller has a place.
func (k *Keyed[R, K]) create(key K) (*entry[R, K], error) {
	var e *entry[R, K]
	defer func() {
		if e == nil { // an error, or New panicked or ended the goroutine
			k.finish(key, nil)
		}
	}()
	l, err := k.o.New(key)
	if err == nil && backdoor.IsNil(l) {
		err = errNilNew
	}
	if err != nil {
		return nil, k.explain(err)
	}
	e = &entry[R, K]{k: k, key: key, limiter: l, retires: retires(l), closes: closes(l)}
	if !k.finish(key, e) {
		_ = closeLimiter(l)
		return nil, core.ErrClosed
	}
	return e, nil
}

func (k *Keyed[R, K]) explain(err error) error {
	if k.o.Name == "" {
		return fmt.Errorf("partition: cannot create limiter for key: %w", err)
	}
	return fmt.Errorf("partition: %q: cannot create limiter for key: %w", k.o.Name, err)
}

// finish ends the creation of a partition: e, or nil if it failed. It reports false if the
// Keyed was closed meanwhile.
func (k *Keyed[R, K]) finish(key K, e *entry[R, K]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return false
	}
	if created := k.creating[key]; created != nil {
		close(created)
	}
	delete(k.creating, key)
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
