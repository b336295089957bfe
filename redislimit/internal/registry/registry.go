// Package registry finds what belongs to a store, or to a client, for as long as something uses it.
package registry

import (
	"runtime"
	"sync"
	"weak"
)

// Registry has a value per key. It does not keep its values alive: a value that nothing uses any more is dropped, with its key.
// It is safe for concurrent use. The zero Registry is empty.
type Registry[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]weak.Pointer[V]
}

// Get returns the value of a key. If there is none, it makes one.
func (r *Registry[K, V]) Get(key K, newValue func() *V) *V {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.of[key].Value(); v != nil {
		return v
	}
	v := newValue()
	if r.of == nil {
		r.of = make(map[K]weak.Pointer[V])
	}
	r.of[key] = weak.Make(v)
	runtime.AddCleanup(v, r.drop, key)
	return v
}

// drop removes a key whose value is gone, unless it has a newer one.
func (r *Registry[K, V]) drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[key].Value() == nil {
		delete(r.of, key)
	}
}
