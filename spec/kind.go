package spec

import (
	"fmt"
	"slices"
	"strconv"
)

// Kind is the kind of limiter that a [Limit] describes.
type Kind uint8

// The kinds, and their words in a limit.
const (
	Unlimited     Kind = iota // "unlimited": [core.Unlimited]
	Concurrency               // "concurrency": [core.ConcurrencyLimiter]
	TokenBucket               // "bucket": [core.TokenBucket]
	FixedWindow               // "fixed": [core.FixedWindow]
	SlidingWindow             // "sliding": [core.SlidingWindow]
	Blocked                   // "blocked": [core.Blocked]
	Paused                    // "paused": [core.Paused]
)

var kindNames = [...]string{
	Unlimited: "unlimited", Concurrency: "concurrency", TokenBucket: "bucket", FixedWindow: "fixed", SlidingWindow: "sliding",
	Blocked: "blocked", Paused: "paused",
}

const wantKind = "bucket, fixed, sliding, concurrency, unlimited, blocked or paused"

// String returns the kind's word, such as "bucket".
func (k Kind) String() string {
	if k.known() {
		return kindNames[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// timed reports whether the amount has a time.
func (k Kind) timed() bool { return k >= TokenBucket && k <= SlidingWindow }

// counted reports whether there is an amount.
func (k Kind) counted() bool { return k >= Concurrency && k <= SlidingWindow }

func (k Kind) known() bool { return int(k) < len(kindNames) }

// MarshalText implements [encoding.TextMarshaler]. An unknown kind is an error.
func (k Kind) MarshalText() ([]byte, error) {
	if !k.known() {
		return nil, fmt.Errorf("spec: Kind = %d, want %s", uint8(k), wantKind)
	}
	return []byte(kindNames[k]), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts what String returns for a
// known kind, in upper or lower case. For any other text it returns an error and leaves k
// unchanged.
func (k *Kind) UnmarshalText(text []byte) error {
	found, ok := kindOf(lower(string(text)))
	if !ok {
		return fmt.Errorf("spec: unknown kind %q, want %s", text, wantKind)
	}
	*k = found
	return nil
}

func kindOf(word string) (Kind, bool) {
	k := slices.Index(kindNames[:], word)
	return Kind(max(k, 0)), k >= 0
}
