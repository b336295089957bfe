package core

import "time"

// MetadataKey names a piece of a lease's metadata and the type of its value. Make one
// with [NewMetadataKey]; keys of equal names are equal.
type MetadataKey[T any] struct{ name string }

// Metadata is a key with its value, made by [MetadataKey.With].
type Metadata struct {
	name  string
	value any
}

// The metadata of the built-in limiters.
var (
	// RetryAfter stands on every rejection by an automatically replenishing rate limiter:
	// the time until this request could be served if nothing else came. Never below 1 ns.
	RetryAfter = NewMetadataKey[time.Duration]("RETRY_AFTER")

	// ReasonPhrase says in words why a lease was rejected.
	ReasonPhrase = NewMetadataKey[string]("REASON_PHRASE")

	// LimiterName is Options.Name of the limiter that decided, if it has one.
	LimiterName = NewMetadataKey[string]("LIMITER_NAME")

	// PermitLimit is the limit in force at the decision.
	PermitLimit = NewMetadataKey[int]("PERMIT_LIMIT")

	// Remaining is how many permits were available right after the decision.
	Remaining = NewMetadataKey[int]("REMAINING")

	// ResetAfter is the time until all permits of a rate limiter are back if nothing more
	// is taken; 0 if they are. A limiter that is replenished by hand does not know it.
	ResetAfter = NewMetadataKey[time.Duration]("RESET_AFTER")

	// Window is the time that a rate limiter's limit is for: a window's length, a token
	// bucket's time from empty to full. It says how fast a limiter is, whatever its kind.
	Window = NewMetadataKey[time.Duration]("WINDOW")
)

// The names of the metadata that a lease carries in its own fields, in the order in
// which Lease.Metadata yields them.
var builtinNames = [...]string{
	RetryAfter.name, ReasonPhrase.name, LimiterName.name, PermitLimit.name, Remaining.name,
	ResetAfter.name, Window.name,
}

// NewMetadataKey returns the key of that name. Names are compared as they are; the
// built-in ones are in upper case.
func NewMetadataKey[T any](name string) MetadataKey[T] { return MetadataKey[T]{name} }

// Name returns the key's name.
func (k MetadataKey[T]) Name() string { return k.name }

// From returns the lease's value for the key; false if there is none, or if it is of
// another type.
func (k MetadataKey[T]) From(l Lease) (T, bool) {
	v, ok := l.lookup(k.name)
	if !ok {
		var none T
		return none, false
	}
	t, ok := v.(T)
	return t, ok
}

// With returns the key with a value, for [Lease.With], [Grant] and [Reject]. A nil value
// is none.
func (k MetadataKey[T]) With(value T) Metadata { return Metadata{k.name, value} }

// mergeMetadata returns old with added: each name once, later wins, nil values are none.
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
