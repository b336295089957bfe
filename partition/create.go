package partition

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-go/sluice/core"
)

var (
	errNoRoom  = errors.New("partition: no room")
	errUnequal = errors.New("partition: the key does not equal itself, as NaN does not")
	errNilNew  = errors.New("New returned a nil limiter")
)

// making is a partition whose New is running.
type making struct {
	done chan struct{} // closed when it is over, or the Keyed is closed
}

// wait waits until it is over; ctx may be none.
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

// enterSlow is what is to do if there is no partition, or a request cannot just go on with
// it: e, which may be nil, and if it is foreign has been entered. It visits, and returns the
// key's partition, pinned, made if it must be. The error is errNoRoom if there is no room for
// it.
func (k *Keyed[R, K]) enterSlow(ctx context.Context, e *entry[R, K], hash uint64, key K) (*entry[R, K], error) {
	// Visits come before anything is held that a panic of OnEvict could lose.
	switch {
	case e == nil || !e.alive():
		k.visit(visitsWhenNew, nil, unread)
	case e.kind != foreign:
		k.visit(visitsPerShare, nil, unread)
	default:
		k.visit(visitsPerShare, e, unread)
		if e.alive() { // it may have been dropped itself
			return e, nil
		}
	}
	return k.findOrMake(ctx, hash, key)
}

func (k *Keyed[R, K]) findOrMake(ctx context.Context, hash uint64, key K) (*entry[R, K], error) {
	if e := k.table.find(hash, key); e != nil && e.join() {
		return e, nil
	}
	if unequal(key, key) {
		return nil, errUnequal
	}
	place := false // held by this call
	defer func() {
		if place {
			k.returnPlace()
		}
	}()
	for tries := 0; ; {
		e, m, mine, err := k.lookUp(hash, key, &place)
		switch {
		case e != nil || err != nil:
			return e, err
		case mine:
			place = false // it is the partition's now
			return k.make(hash, key, m)
		case m != nil:
			if place { // of no use
				k.returnPlace()
				place = false
			}
			if err := m.wait(ctx); err != nil {
				return nil, err
			}
		case tries == triesForRoom || !k.makeRoom(&place):
			return nil, errNoRoom
		default:
			tries++
		}
	}
}

func unequal[K comparable](a, b K) bool { return a != b }

// lookUp looks under the mutex for the partition, pinned, or for who is making it: mine says
// that it is this call, which has a place now, or had it. Without any of them there is no
// room.
func (k *Keyed[R, K]) lookUp(hash uint64, key K, place *bool) (e *entry[R, K], m *making, mine bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() {
		return nil, nil, false, core.ErrClosed
	}
	if e := k.table.find(hash, key); e != nil {
		e.join() // it is not dead: those leave the table as they die
		return e, nil, false, nil
	}
	if m := k.making[key]; m != nil {
		return nil, m, false, nil
	}
	if !*place {
		if k.places >= k.o.MaxPartitions {
			return nil, nil, false, nil
		}
		k.places++
		*place = true
	}
	m = &making{make(chan struct{})}
	k.making[key] = m
	return nil, m, true, nil
}

func (k *Keyed[R, K]) returnPlace() {
	k.mu.Lock()
	k.places--
	k.mu.Unlock()
}

// make calls New for the key, for which m is in making and holds a place.
func (k *Keyed[R, K]) make(hash uint64, key K, m *making) (*entry[R, K], error) {
	var e *entry[R, K]
	defer func() {
		if e == nil { // an error, or New panicked or ended the goroutine
			k.made(key, m, nil)
		}
	}()
	l, err := k.o.New(key)
	if err == nil && isNil(l) {
		err = errNilNew
	}
	if err != nil {
		return nil, k.explain(err)
	}
	_, closes := l.(io.Closer)
	e = &entry[R, K]{hash: hash, limiter: l, closes: closes, kind: kindOf(l), key: key}
	e.word.Store(oneCall + onePin)
	if !k.made(key, m, e) {
		_ = closeLimiter(l)
		return nil, core.ErrClosed
	}
	return e, nil
}

// made ends the making of a partition: e, or nil if it failed. It reports false if the
// Keyed was closed meanwhile.
func (k *Keyed[R, K]) made(key K, m *making, e *entry[R, K]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.making[key] != m {
		return false
	}
	delete(k.making, key)
	if e == nil {
		k.places--
	} else {
		k.table.add(e)
		k.ring.add(e)
		k.created++
	}
	close(m.done)
	return true
}

func (k *Keyed[R, K]) explain(err error) error {
	if k.o.Name == "" {
		return fmt.Errorf("partition: no limiter for the key: %w", err)
	}
	return fmt.Errorf("partition: %q: no limiter for the key: %w", k.o.Name, err)
}

// closeLimiter closes a limiter that can be closed.
func closeLimiter(l core.Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
