package pipe

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/meter"
)

// Options are the limiters and the buffer of a pipe, or of one end of a pair returned by [Conns]. One permit is
// one byte. A nil field means no limit; a field that holds a nil pointer is an error.
//
// If both limiters of a pipe use the same concurrency limiter, even inside a chain, a wrapper or a partition, only
// Write takes its permits. Read skips it, because the buffered bytes may already hold all of its permits, and uses the
// rest of its limiter.
type Options struct {
	WriteLimiter core.Limiter // grants the bytes written; they hold its permits until they are read
	ReadLimiter  core.Limiter // grants the bytes read; the permits are released immediately

	// Buffer is the size of the buffer in bytes, at least 0; 0 means 64 KiB. If WriteLimiter contains a
	// concurrency limiter of package core, its limit is the size instead. Beside any other limiter, Buffer applies.
	// In [Conns] it is the buffer of what the end writes.
	Buffer int
}

// validate returns an error that names all fields that are out of range. where is the name of the Options in
// the error.
func (o Options) validate(where string) error {
	errs := []error{
		meter.Check("pipe: "+where+".WriteLimiter", o.WriteLimiter),
		meter.Check("pipe: "+where+".ReadLimiter", o.ReadLimiter),
	}
	if o.Buffer < 0 {
		errs = append(errs, fmt.Errorf("pipe: %s.Buffer = %d, want at least 0", where, o.Buffer))
	}
	return errors.Join(errs...)
}
