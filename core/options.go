package core

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/internal/machine"
)

// Options are the options of one of the four main limiters: [ConcurrencyLimiterOptions],
// [TokenBucketOptions], [FixedWindowOptions] or [SlidingWindowOptions]. Use the type for a limit that is
// read from a configuration: [New] makes a limiter, and [Apply] changes one.
type Options interface {
	validate() error
	label() label
	terms() machine.Terms
	apply(now Limiter) (Limiter, error)
}

var errNoOptions = errors.New("core: Options are nil, want those of a limiter")

// New returns a limiter with the options o, as [NewConcurrencyLimiter], [NewTokenBucket],
// [NewFixedWindow] or [NewSlidingWindow] would, or an error that lists all invalid
// options.
func New(o Options) (Limiter, error) { return Apply(nil, o) }

// Apply returns a limiter with the options o that takes the place of now. If now is a limiter of the kind that o
// describes, Apply calls its Update and returns now itself. The error is then that of Update, such as [ErrClosed] if
// now is closed. If now is nil or of another kind, Apply returns a new limiter, and leaves now as it is. If Apply
// returns an error, nothing has changed.
//
// A chain, or a wrapper such as the limiter of [WithReason], is not one of the four main limiters, so Apply does not
// change it. To change a limiter in place, put it into a [Switch] and call [Switch.Apply].
func Apply(now Limiter, o Options) (Limiter, error) {
	if isNil(o) {
		return nil, errNoOptions
	}
	return o.apply(now)
}

// updater is one of the four limiters; O are its options.
type updater[O any] interface {
	Limiter
	owner
	fmt.Stringer
	Options() O
	Update(o O) error
	itself() Limiter
	base() *engine
}

// apply is like Apply, but for one kind of limiter.
func apply[L updater[O], O any](now Limiter, o O, create func(O) (L, error)) (Limiter, error) {
	l, ok := now.(L)
	var err error
	if ok && !isNil(l) {
		err = l.Update(o)
	} else {
		l, err = create(o)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// newSettings returns settings that no limiter has yet.
func newSettings(o Options) *settings { return settingsOf(o.label(), o.terms()) }
