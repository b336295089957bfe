package core

import (
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/machine"
)

// handle is what a lease points at. It leads to the settings under which the lease was granted, and
// it makes sure that the permits which a lease holds are returned once.
//
// A lease that holds permits has a handle and a generation of it (a generational index). The
// call that moves the handle on to the next generation ends the lease: of any number of copies and
// goroutines one succeeds, and from then on no copy of that lease can release anything, however often
// the handle is used again. There are 2^61 generations, so none comes twice.
//
// Leases that hold nothing, such as those of rate limiters and rejections, share the handle that
// is part of their settings; its generation stays 0.
type handle struct {
	generation int64                    // a concurrency limiter's is guarded by its mutex: see endLocked; any other is atomic
	s          atomic.Pointer[settings] // nil if the lease is not from a limiter of this package; changes only between leases
	x          *extra                   // nil if the lease is all in its own fields
	next       *handle                  // next handle in a list of those that no lease uses
}

// settings are a limiter's current options. They do not change: an Update makes new ones, and
// leases keep those under which they were granted.
type settings struct {
	*label
	machine.Terms

	shared handle // handle of leases that hold nothing
	owner  owner  // nil for leases that no limiter of this package has granted, and for those of a chain
}

// label holds the rarely used settings. Limiters that set none of them share one label.
type label struct {
	name     string
	anchor   time.Time     // a window's, as it was given
	calendar Calendar      // a fixed window's
	hook     backdoor.Hook // called at the end of leases; nil: they are not watched
}

// copy returns equal settings.
func (s *settings) copy() *settings {
	k := &settings{label: s.label, Terms: s.Terms, owner: s.owner}
	k.shared.s.Store(k)
	return k
}

// window returns what the metadata calls by that name; 0: nothing. It is how long a full replenishment takes.
func (s *settings) window() int64 {
	if s.owner == nil {
		return s.Span // of a chain: that of one of its limiters
	}
	return s.owner.window(s)
}

// extra is what few leases need beyond their own fields.
type extra struct {
	base    *handle    // the handle that owns the permits: its generation and settings count; nil: the handle next to this extra
	info    *leaseInfo // what the lease says, if its fields have no room for it or say what Settle needs instead
	missing int        // with info, a bucket's: machine.Grant.Missing
	err     error      // why the lease is not acquired
	meta    []Metadata // each name once
	by      describer  // has more metadata, of names that may be in meta, too; nil: nobody
	owner   owner      // who granted the lease, if its settings do not tell
}

// describer has the metadata of a lease: see Ways.Describe of package backdoor.
type describer interface{ Metadata() []Metadata }

// metadata returns the metadata that was added to the lease, each name once.
func (x *extra) metadata() []Metadata {
	if x.by == nil {
		return x.meta
	}
	return mergeMetadata(x.by.Metadata(), x.meta)
}

// leaseInfo is the numbers that a lease says.
type leaseInfo struct {
	permits int   // requested
	limit   int   // at the decision; 0: unknown
	left    int   // available right after the decision, or unknown
	retry   int64 // time to retry after a rejection; 0 if it is unknown
	reset   int64 // below 0: unknown
}

// owner is who granted leases and takes back what they hold: one of the four limiters, a chain, whoever called Grant or
// GrantFrom, or a reservation.
type owner interface {
	// release releases a lease that holds something, unless it has ended.
	release(l Lease)

	// settle is Settle of an acquired lease, to another number of permits, at least 0.
	settle(l Lease, permits int) Lease

	// window returns what the metadata of leases granted under these settings calls the window; above 0 for a rate limiter, 0 for others.
	window(s *settings) int64
}

// owner returns who granted the lease; nil if nobody takes anything back.
func (l Lease) owner() owner {
	if l.h == nil {
		return nil
	}
	h := l.handle()
	if h.x != nil && h.x.owner != nil {
		return h.x.owner
	}
	if s := h.settings(); s != nil {
		return s.owner
	}
	return nil
}

// handle returns the handle whose generation the lease has.
func (l Lease) handle() *handle {
	if l.h.x != nil && l.h.x.base != nil {
		return l.h.x.base
	}
	return l.h
}

// settings returns the settings under which the lease was granted; nil if it is of none of this
// package's limiters.
func (l Lease) settings() *settings { return l.h.reported() }

// extra returns what the lease has beyond its fields, or nil.
func (l Lease) extra() *extra {
	if l.h == nil {
		return nil
	}
	return l.h.x
}

// settings returns the settings that the handle leads to, or nil.
func (h *handle) settings() *settings { return h.s.Load() }

// reported returns the settings that a handle leads to, which may be nil.
func (h *handle) reported() *settings {
	if h == nil {
		return nil
	}
	return h.settings()
}

// with returns the lease with x beyond its fields; s are the settings by which it reads them.
func (l Lease) with(s *settings, x extra) Lease {
	k := &struct {
		handle
		extra
	}{extra: x}
	k.handle.s.Store(s)
	k.handle.x = &k.extra
	l.h = &k.handle
	return l
}

// copyExtra returns what a copy of the lease has beyond its fields: not the error of a rejection,
// which is made from the metadata.
func (l Lease) copyExtra() (x extra) {
	if old := l.extra(); old != nil {
		x.meta, x.by, x.info, x.missing = old.meta, old.by, old.info, old.missing
		if o := l.outcome(); o == failed || o == exceeds {
			x.err = old.err
		}
	}
	if l.h != nil {
		x.base = l.handle()
	}
	return x
}

// wideLease is newLease for numbers that do not fit.
func wideLease(h *handle, o outcome, permits, left int, reset, at int64) Lease {
	l := Lease{h: h, bits: uint64(o), reset: reset, at: at}
	f := l.info()
	f.permits, f.left = permits, left
	x := extra{base: h, info: &f, missing: f.limit - left}
	if h == nil {
		return l.with(nil, x)
	}
	return l.with(h.settings(), x)
}

// permits returns the permits requested.
func (l Lease) permits() int {
	if l.h != nil && l.h.x != nil {
		return l.info().permits
	}
	return l.packed()
}

// info returns what the lease says.
func (l Lease) info() leaseInfo {
	if x := l.extra(); x != nil && x.info != nil {
		return *x.info
	}
	f := leaseInfo{
		permits: l.packed(),
		left:    int(l.bits>>factShift>>(l.width()&63)) - 1,
		reset:   unknown,
	}
	s := l.settings()
	if s == nil {
		return f
	}
	f.limit = s.Limit
	if s.Timed() {
		f.reset = l.reset
		if l.outcome().rejected() {
			f.retry = l.at
		}
	}
	return f
}

// free is the handle of all leases that hold nothing and that nobody counts: those of Unlimited, and those
// that Shadow lets pass.
var free handle

// Generations are multiples of 4. While a call settles a lease that is not a concurrency limiter's, which may call a
// user's code, the two low bits say so, and what other calls have asked for until then.
const (
	settling      = 1
	thenRelease   = 2
	thenRefund    = 3
	perGeneration = 4
)

// endLocked is end for the lease of a concurrency limiter, whose mutex the caller holds. Nobody settles it meanwhile.
func (h *handle) endLocked(generation int64) bool {
	if h.generation != generation {
		return false
	}
	h.generation += perGeneration
	return true
}

// end ends a generation of a lease that is not a concurrency limiter's, and reports whether this call is the
// one that does. Only then may the caller touch what the handle refers to, and use it again. If another
// call is settling the lease, that call releases it if it is still there afterwards.
func (h *handle) end(generation int64) bool {
	for {
		next := generation + perGeneration
		now := atomic.LoadInt64(&h.generation)
		switch now {
		case generation:
		case generation + settling, generation + thenRefund:
			next = generation + thenRelease
		default:
			return false
		}
		if atomic.CompareAndSwapInt64(&h.generation, now, next) {
			return now == generation
		}
	}
}

// settle begins to settle a lease to n permits. The lease then is this caller's until it calls settled. It returns false
// if the lease has ended or another call is settling it; if n is 0, that call refunds it if it is still there afterwards.
func (h *handle) settle(generation int64, n int) bool {
	for !atomic.CompareAndSwapInt64(&h.generation, generation, generation+settling) {
		if n > 0 || atomic.LoadInt64(&h.generation) != generation+settling {
			return false
		}
		if atomic.CompareAndSwapInt64(&h.generation, generation+settling, generation+thenRefund) {
			return false
		}
	}
	return true
}

// settled ends what settle began. If the lease is kept as it was, settled returns what another call has asked for, or
// 0; thenRelease ends the lease, and after thenRefund the caller is still settling it.
func (h *handle) settled(generation int64, kept bool) (then int64) {
	if !kept {
		atomic.StoreInt64(&h.generation, generation+perGeneration)
		return 0
	}
	if atomic.CompareAndSwapInt64(&h.generation, generation+settling, generation) {
		return 0
	}
	if then = atomic.LoadInt64(&h.generation) - generation; then == thenRelease {
		atomic.StoreInt64(&h.generation, generation+perGeneration)
	} else {
		atomic.StoreInt64(&h.generation, generation+settling)
	}
	return then
}

// handles is a list of handles whose leases have ended, for later leases. It has at most maxSpare.
type handles struct {
	first *handle
	len   int
}

const maxSpare = 64

func (l *handles) push(h *handle) {
	if l.len < maxSpare {
		h.next, l.first = l.first, h
		l.len++
	}
}

// pop returns nil if there is none.
func (l *handles) pop() *handle {
	h := l.first
	if h != nil {
		l.first, h.next = h.next, nil
		l.len--
	}
	return h
}
