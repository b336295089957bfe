package pipe

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// Options are the limiters of a pipe, or of one end of a pair of [Conns]. A permit is a
// byte. nil: unlimited on that side. If a limiter whose permits are held is on both sides
// of a pipe it is asked on the write side only: the buffered bytes have its permits, and could
// have all that there are.
type Options struct {
	WriteLimiter core.Limiter // grants the bytes written; held until they are read
	ReadLimiter  core.Limiter // grants the bytes read; released as soon as they are
}

// validate reports limiters that hold a nil pointer; where says whose options these are.
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
