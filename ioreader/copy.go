package ioreader

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-go/sluice/core"
)

// CopyOptions say how [Copy] copies.
type CopyOptions struct {
	Limiter    core.Limiter   // a permit is a byte; nil: unlimited
	BufferSize int            // bytes read at once, where the kernel does not move them; 0: 32 KiB; at least 0
	Total      int64          // bytes that there are, for Progress; 0: unknown; at least 0
	OnProgress func(Progress) // told about ten times a second while bytes pass, and once at the end; nil: nobody
}

func (o CopyOptions) validate() error {
	var errs []error
	if o.BufferSize < 0 {
		errs = append(errs, fmt.Errorf("ioreader: CopyOptions.BufferSize = %d, want at least 0", o.BufferSize))
	}
	if o.Total < 0 {
		errs = append(errs, fmt.Errorf("ioreader: CopyOptions.Total = %d, want at least 0", o.Total))
	}
	return errors.Join(errs...)
}

// Copy copies src to dst until src ends, which is no error, and returns how many bytes
// dst took. If both are files or connections, the bytes stay in the kernel where the
// system can do that. Copies that share a limiter get equal shares of it.
//
// A done ctx ends it with ctx.Err(), at once if it is waiting for permits, else as soon as
// the Read or Write underneath returns; the limiter's *[core.RejectedError] ends it too.
// What was paid for and not copied is given back. It closes neither dst nor src.
// OnProgress runs in this goroutine, between two slices, and no lock is held.
func Copy(ctx context.Context, dst io.Writer, src io.Reader, o CopyOptions) (int64, error) {
	if err := o.validate(); err != nil {
		return 0, err
	}
	if ctx == nil || dst == nil || src == nil {
		return 0, errors.New("ioreader: Copy needs a context, a writer and a reader")
	}
	var s side
	s.start(ctx, o.Limiter, dst)
	defer func() { _ = s.close(nil) }() // what is underneath stays open
	p := pump{side: &s, dst: dst, src: src, paid: onWrite}
	if o.BufferSize > 0 {
		p.buf = make([]byte, o.BufferSize)
	}
	if o.OnProgress != nil {
		t := newTracker(o.Total, o.OnProgress)
		p.passed = t.passed
		defer t.finish()
	}
	return p.run()
}
