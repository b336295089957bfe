package core

import (
	"slices"
	"time"
)

// MetadataKey is the name of a piece of a lease's metadata and the type of its value. Create
// it with [NewMetadataKey]; keys with equal names are equal, and the name of the zero key is
// empty.
type MetadataKey[T any] struct{ name string }

// Metadata is a key with its value, made by [MetadataKey.With].
type Metadata struct {
	name  string
	value any
}

// The metadata of the built-in limiters.
var (
	// RetryAfter is set on every rejection by a rate limiter that replenishes automatically: the
	// time until this request could be granted if no other request came. It is at least 1 ns.
	// Under [FairShare], or if very many requests wait, it may be too short.
	RetryAfter = NewMetadataKey[time.Duration]("RETRY_AFTER")

	// ReasonPhrase is the reason of a rejection, in words.
	ReasonPhrase = NewMetadataKey[string]("REASON_PHRASE")

	// LimiterName is the Options.Name of the limiter that decided. It is not set if the limiter
	// has no name.
	LimiterName = NewMetadataKey[string]("LIMITER_NAME")

	// PermitLimit is the limit at the decision, in permits.
	PermitLimit = NewMetadataKey[int]("PERMIT_LIMIT")

	// Remaining is the number of permits that were available right after the decision.
	Remaining = NewMetadataKey[int]("REMAINING")

	// ResetAfter is the time until all permits of a rate limiter are available if no more are
	// taken, or 0 if all are. It is not set under manual replenishment.
	ResetAfter = NewMetadataKey[time.Duration]("RESET_AFTER")

	// Window is the period of a rate limiter's limit: the length of a window, or the time in which
	// an empty token bucket fills. With [PermitLimit] it gives the rate of a limiter of any kind. A
	// concurrency limiter does not set it.
	Window = NewMetadataKey[time.Duration]("WINDOW")
)

// The names of the metadata that a lease carries in its own fields, in the order in which
// Lease.Metadata yields them.
var builtinNames = [...]string{
	RetryAfter.name, ReasonPhrase.name, LimiterName.name, PermitLimit.name, Remaining.name,
	ResetAfter.name, Window.name, Delay.name,
}

// NewMetadataKey returns the key with that name. Names are case-sensitive; those of the
// built-in keys are in upper case.
func NewMetadataKey[T any](name string) MetadataKey[T] { return MetadataKey[T]{name} }

// Name returns the key's name.
func (k MetadataKey[T]) Name() string { return k.name }

// From returns the lease's value for the key. It returns false if the lease has no such value,
// or one of another type.
func (k MetadataKey[T]) From(l Lease) (T, bool) {
	v, ok := l.lookup(k.name)
	if !ok {
		var none T
		return none, false
	}
	t, ok := v.(T)
	return t, ok
}

// With returns the key with a value, for [Lease.With], [Grant] and [Reject]. A nil value is
// ignored.
func (k MetadataKey[T]) With(value T) Metadata { return Metadata{k.name, value} }

// mergeMetadata returns old with added: each name once, a later value wins, nil values are
// ignored.
func mergeMetadata(old, added []Metadata) []Metadata {
	merged := make([]Metadata, len(old), len(old)+len(added))
	copy(merged, old)
next:
	for _, m := range added {
		if m.value == nil {
			continue
		}
		for i := range merged {
			if merged[i].name == m.name {
				merged[i] = m
				continue next
			}
		}
		merged = append(merged, m)
	}
	return merged
}

// without returns the lease without added metadata of that name.
func (l Lease) without(name string) Lease {
	if _, ok := l.added(name); !ok {
		return l
	}
	x := l.copyExtra()
	x.meta, x.by = slices.DeleteFunc(slices.Clone(x.metadata()), func(m Metadata) bool { return m.name == name }), nil
	return l.with(l.settings(), x)
}

// added returns the metadata of that name that was added to the lease.
func (l Lease) added(name string) (any, bool) {
	x := l.extra()
	if x == nil {
		return nil, false
	}
	named := func(m Metadata) bool { return m.name == name }
	if i := slices.IndexFunc(x.meta, named); i >= 0 {
		return x.meta[i].value, true
	}
	if x.by == nil {
		return nil, false
	}
	more := x.by.Metadata()
	if i := slices.IndexFunc(more, named); i >= 0 {
		return more[i].value, true
	}
	return nil, false
}

// lookup returns the metadata of that name.
func (l Lease) lookup(name string) (any, bool) {
	if v, ok := l.added(name); ok {
		return v, true
	}
	return l.builtin(name)
}

// delay returns what [Delay] says; false if the lease is of no reservation or it is unknown.
func (l Lease) delay() (time.Duration, bool) {
	if l.outcome() != reserved {
		return 0, false
	}
	if k, ok := l.owner().(interface{ delayKnown() (time.Duration, bool) }); ok {
		return k.delayKnown()
	}
	return 0, true
}

// builtin returns the metadata of that name from the lease's own fields and settings.
func (l Lease) builtin(name string) (any, bool) {
	if name == Delay.name {
		return l.delay()
	}
	s := l.settings()
	if s == nil {
		return nil, false // the lease of a foreign limiter
	}
	switch name {
	case ReasonPhrase.name:
		phrase := l.outcome().phrase()
		return phrase, phrase != ""
	case LimiterName.name:
		return s.name, s.name != ""
	case PermitLimit.name:
		limit := l.info().limit
		return limit, limit > 0
	case RetryAfter.name:
		retry := l.info().retry
		return time.Duration(retry), retry > 0
	case Remaining.name:
		left := l.info().left
		return left, left >= 0
	case ResetAfter.name:
		reset := l.info().reset
		return time.Duration(reset), reset >= 0
	case Window.name:
		window := s.window()
		return time.Duration(window), window > 0
	}
	return nil, false
}

// Delay is set on a lease of Reserve: the time from the call until its permits become available, or 0 if they were
// available. It is exact if nothing changes. Under [FairShare], or if very many requests wait, it may be too short.
var Delay = NewMetadataKey[time.Duration]("DELAY")
