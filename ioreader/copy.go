package ioreader

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-go/sluice/core"
)

// CopyOptions are the options of [Copy]. The zero value copies without a limit.
type CopyOptions struct {
	Limiter    core.Limiter   // a permit is a byte; nil: no limit
	BufferSize int            // bytes read at once, unless the kernel copies; 0 means 32 KiB; at least 0
	Total      int64          // bytes to be copied, reported in Progress; 0 means unknown; at least 0
	OnProgress func(Progress) // called about ten times a second while bytes pass, and at the end; may be nil
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

// Copy copies src to dst until src returns io.EOF, which is no error, or until an error occurs,
// and returns the number of bytes written. If src is a file, and dst a file or a TCP connection,
// the kernel copies the bytes where the system supports it. Copies that share a limiter get equal
// parts of it.
//
// When ctx is done, Copy returns ctx.Err(): at once if it waits for permits, else as soon as the
// Read or Write underneath returns. If the limiter refuses, it returns the limiter's
// *[core.RejectedError]. Permits for bytes that were not written are given back. Copy closes
// neither dst nor src. It calls OnProgress from the caller's goroutine, with no lock held.
//
// Copy returns an error at once if an argument is nil or an option is out of range.
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
