package shared

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/redislimit"
)

// ErrUnreachable is matched by the errors of this package's own calls of a server.
var ErrUnreachable = errors.New("redis is unreachable")

// failed returns the error of a call of a server, or nil if err is nil.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// IsStore reports whether a Redis server is the cause of err: it is unreachable, or it has replied with an error.
func IsStore(err error) bool {
	return errors.Is(err, redislimit.ErrStore) || errors.Is(err, ErrUnreachable)
}

// IsRefusal reports whether the server has replied with an error, such as NOPERM or WRONGPASS.
func IsRefusal(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// Reason returns an error of a server for people: redis is unreachable: dial tcp …, or redis refused: NOPERM ….
func Reason(err error) string {
	text := err.Error()
	for _, same := range []error{redislimit.ErrStore, ErrUnreachable} {
		text = strings.TrimPrefix(text, same.Error()+": ")
	}
	if IsRefusal(err) {
		return "redis refused: " + text
	}
	return ErrUnreachable.Error() + ": " + text
}
