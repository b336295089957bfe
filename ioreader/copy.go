package ioreader

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/meter"
)

// CopyOptions are the options of [Copy]. The zero value copies without a limit.
type CopyOptions struct {
	Limiter    core.Limiter   // grants the bytes written; nil means no limit
	BufferSize int            // size of the copy buffer in bytes, at least 0; 0 means 32 KiB
	Total      int64          // expected number of bytes, for Progress; 0 or less means unknown, such as a ContentLength of -1
	OnProgress func(Progress) // called up to ten times a second while bytes pass, and at the end; may be nil
}

func (o CopyOptions) validate() (err error) {
	if o.BufferSize < 0 {
		err = fmt.Errorf("ioreader: CopyOptions.BufferSize = %d, want at least 0", o.BufferSize)
	}
	return errors.Join(meter.Check("ioreader: CopyOptions.Limiter", o.Limiter), err)
}

// Copy copies src to dst until src returns io.EOF, for which Copy returns a nil error, or until an
// error occurs. It returns the number of bytes written. If src is a file, and dst is a file or a
// TCP connection, the kernel copies the bytes if it supports that. Copies that share a token bucket of
// [PerSecond] get equal parts of its rate.
//
// When ctx is done, Copy returns ctx.Err(): immediately if it is waiting for permits, otherwise when the current src.Read or dst.Write returns.
// If a custom limiter rejects a request, Copy returns its *[core.RejectedError]. A rate limiter rejects a slice whose permits would become
// available after ctx's deadline; this *[core.RejectedError] also matches [context.DeadlineExceeded]. Permits for bytes that were not written are
// refunded. Copy closes neither dst nor src. It calls OnProgress on the caller's goroutine.
//
// Copy returns an error immediately if ctx, dst or src is nil or holds a nil pointer, or if an option is
// out of range.
func Copy(ctx context.Context, dst io.Writer, src io.Reader, o CopyOptions) (int64, error) {
	if err := o.validate(); err != nil {
		return 0, err
	}
	if backdoor.IsNil(ctx) || backdoor.IsNil(dst) || backdoor.IsNil(src) {
		return 0, errors.New("ioreader: Copy needs a context, a writer and a reader")
	}
	var s side
	s.start(ctx, o.Limiter, dst, src)
	p := pump{side: &s, dst: dst, src: src, paid: onWrite}
	if o.BufferSize > 0 {
		p.buf = make([]byte, o.BufferSize)
	}
	if o.OnProgress == nil {
		return p.run()
	}
	t := newTracker(max(o.Total, 0), o.OnProgress)
	p.passed = t.passed
	n, err := p.run()
	t.finish()
	return n, err
}
