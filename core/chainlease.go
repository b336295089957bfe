package core

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/machine"
)

// joiner joins leases into one, for [ChainedLimiter] and, through package backdoor, for other packages. It is safe for concurrent use.
type joiner struct {
	size   int                            // the number of parts of a lease
	settle func(parts []Lease, n int) int // settles the parts in place of chainLease.settle, and returns the permits then; nil: it does not

	mu    sync.Mutex // a leaf; guards what follows
	spare handles    // handles of chain leases that are not in use and have no parts
}

// chainLease is the handle of a lease that holds other leases, its parts. The caller of begin owns
// it until Join, Drop or undo. After Join, the caller that settles the lease or ends its generation owns it.
type chainLease struct {
	handle

	joiner *joiner
	parts  []Lease // parts in the order of the limiters

	reported labelled // the settings of its leases; fixed once a lease is granted, because ended leases still report them
	own      extra    // the extra of the handle
}

func newChainLease(j *joiner, parts []Lease) *chainLease {
	k := &chainLease{joiner: j, parts: parts}
	k.own.owner = k
	k.handle.x = &k.own
	return k
}

// begin returns a handle without parts.
func (j *joiner) begin() *chainLease {
	j.mu.Lock()
	h := j.spare.pop()
	j.mu.Unlock()
	if h == nil {
		return newChainLease(j, make([]Lease, 0, j.size))
	}
	return h.x.owner.(*chainLease)
}

// Add adds a part.
func (k *chainLease) Add(part Lease) { k.parts = append(k.parts, part) }

// Leases returns the parts.
func (k *chainLease) Leases() []Lease { return k.parts }

// Join returns a lease of permits that holds the parts. It has each name's metadata of the
// first part that has it.
func (k *chainLease) Join(permits int) Lease {
	name, window, f, added := mergeInfo(k.parts)
	if s := k.settings(); s == nil || s.name != name || s.Limit != f.limit || s.Span != window {
		if s != nil {
			k = newChainLease(k.joiner, k.parts)
		}
		k.reported.set(label{name: name}, machine.Terms{Limit: f.limit, Span: window})
		k.s.Store(&k.reported.settings)
	}
	l := newLease(&k.handle, held, permits, f.left, f.reset, atomic.LoadInt64(&k.generation))
	if added {
		return l.withUnion(k.parts)
	}
	return l
}

func (k *chainLease) release(l Lease) {
	if k.end(l.at) {
		k.released(0)
	}
}

func (k *chainLease) settle(l Lease, n int) Lease {
	got, ended := l.settleOnce(k, n)
	switch {
	case !ended:
		return l
	case got > 0:
		return l.replacement(&k.handle, held, got, l.at+perGeneration)
	}
	r := l.replacement(&k.settings().shared, granted, 0, 0)
	k.Drop()
	return r
}

func (k *chainLease) window(s *settings) int64 { return s.Span }

// tell settles the parts to n permits, last first, and returns the permits that the lease has then.
func (k *chainLease) tell(_, n int) int {
	if f := k.joiner.settle; f != nil {
		return max(f(k.parts, n), 0)
	}
	if n == 0 {
		k.undoParts()
		return 0
	}
	for i, part := range slices.Backward(k.parts) {
		k.parts[i] = part.Settle(n)
	}
	return n
}

// undoParts refunds the parts, last first, each once even if one panics.
func (k *chainLease) undoParts() {
	backward(len(k.parts), func(i int) {
		part := k.parts[i]
		k.parts[i] = Lease{}
		part.undo()
	})
}

// undo refunds the parts; the lease has ended.
func (k *chainLease) undo() {
	defer k.Drop()
	k.undoParts()
}

// Drop forgets the parts and keeps the handle for another lease.
func (k *chainLease) Drop() {
	clear(k.parts)
	k.parts = k.parts[:0]
	j := k.joiner
	j.mu.Lock()
	j.spare.push(&k.handle)
	j.mu.Unlock()
}

func (k *chainLease) undone(int) { k.undo() }

// released releases the parts, last first.
func (k *chainLease) released(int) {
	backward(len(k.parts), func(i int) { k.parts[i].Release() })
	k.Drop()
}

// mergeInfo returns the built-in metadata of the parts; of each name, that of the first part
// that has it. added reports whether a part has further metadata.
func mergeInfo(parts []Lease) (name string, window int64, all leaseInfo, added bool) {
	all.left, all.reset = unknown, unknown
	for _, k := range parts {
		x, s := k.extra(), k.settings()
		added = added || x != nil && (len(x.meta) > 0 || x.by != nil) || k.outcome() == reserved
		if s == nil {
			continue
		}
		if name == "" {
			name = s.name
		}
		if window == 0 {
			window = s.window()
		}
		f := k.info()
		if all.limit == 0 {
			all.limit = f.limit
		}
		if all.left < 0 {
			all.left = f.left
		}
		if all.reset < 0 {
			all.reset = f.reset
		}
	}
	return name, window, all, added
}

// withUnion returns the joined lease with the metadata of its parts; the first of a name wins.
func (l Lease) withUnion(parts []Lease) Lease {
	var union []Metadata
	for _, k := range parts {
	next:
		for name, value := range k.Metadata() {
			for _, m := range union {
				if m.name == name {
					continue next
				}
			}
			union = append(union, Metadata{name, value})
		}
	}
	return l.With(union...)
}

// backward calls f for each of the n parts, last first, even if a call panics.
func backward(n int, f func(i int)) {
	defer func() {
		if n > 0 {
			backward(n, f)
		}
	}()
	for n > 0 {
		n--
		f(n)
	}
}
