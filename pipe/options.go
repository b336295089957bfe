package pipe

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/sluice-go/sluice/core"
)

// Options are the limiters of a pipe, or of one end of a pair of [Conns]. A permit is a
// byte. nil: unlimited on that side. Do not use one concurrency limiter on both sides of a
// pipe: the buffered bytes could hold all the permits that reading them takes.
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
		v := reflect.ValueOf(l.limiter)
		if v.Kind() == reflect.Pointer && v.IsNil() {
			errs = append(errs, fmt.Errorf("pipe: %s.%s is a nil %T, want a limiter, or nil for none", where, l.field, l.limiter))
		}
	}
	return errors.Join(errs...)
}
