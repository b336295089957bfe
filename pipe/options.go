package pipe

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// Options are the limiters of a pipe, or of one end of a pair made by [Conns]. A permit is a
// byte. A nil field means no limit on that side; a nil pointer in a field is an error.
//
// If the same concurrency limiter, or chain, is on both sides of a pipe, it is asked only on
// the write side: the buffered bytes hold its permits and may hold all of them.
type Options struct {
	WriteLimiter core.Limiter // grants the bytes written; the leases are held until they are read
	ReadLimiter  core.Limiter // grants the bytes read; the leases are released at once
}

// validate reports the fields that hold a nil pointer; where says whose options these are.
func (o Options) validate(where string) error {
	var errs []error
	for _, l := range []struct {
		field   string
		limiter core.Limiter
	}{{"WriteLimiter", o.WriteLimiter}, {"ReadLimiter", o.ReadLimiter}} {
		if l.limiter != nil && argument.IsNil(l.limiter) {
			errs = append(errs, fmt.Errorf("pipe: %s.%s is a nil %T, want a limiter, or nil for none", where, l.field, l.limiter))
		}
	}
	return errors.Join(errs...)
}
