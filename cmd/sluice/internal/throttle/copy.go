package throttle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/ioreader"
)

// job copies the files to the output, one after the other.
type job struct {
	*options

	pace  *pace
	sink  *sink
	start time.Time

	passed atomic.Int64    // lines
	screen *cli.StatusLine // nil means none
}

func (o *options) open() (*job, error) {
	p, err := newPace(o.limits)
	if err != nil {
		return nil, err
	}
	p.pause = pause
	j := &job{options: o, pace: p, sink: &sink{f: os.Stdout}}
	if o.out == "-" {
		err = cli.CheckStdout("use -o /dev/null to discard the data")
	} else { // it is truncated later, because it may be an input
		j.sink.f, err = os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE, 0o666)
	}
	if err != nil {
		return nil, err
	}
	out, err := j.sink.f.Stat()
	if err != nil {
		return nil, err
	}
	j.sink.regular = out.Mode().IsRegular()
	if err := j.lookAtFiles(out); err != nil {
		return nil, err
	}
	if o.out != "-" && j.sink.regular {
		if err := j.sink.f.Truncate(0); err != nil {
			return nil, err
		}
	}
	if o.progress == "" && !o.numeric && !o.quiet {
		j.screen = cli.NewStatusLine(os.Stderr)
	}
	j.start = time.Now()
	return j, nil
}

// lookAtFiles finds files that are missing, and adds up their sizes unless the total is given. None may be out, because that copy
// would read its own output without end.
func (j *job) lookAtFiles(out os.FileInfo) error {
	size, known := int64(0), j.total == 0 && !j.lines
	for _, name := range j.files {
		info, err := os.Stdin.Stat()
		at, _ := os.Stdin.Seek(0, io.SeekCurrent)
		if name != "-" {
			info, err = os.Stat(name)
			at = 0
		}
		if err != nil {
			return err
		}
		if known = known && info.Mode().IsRegular(); info.Mode().IsRegular() {
			if os.SameFile(info, out) {
				return fmt.Errorf("%s is read and written; write to another file", info.Name())
			}
			size += max(info.Size()-at, 0)
		}
	}
	if known {
		j.total = size
	}
	return nil
}

func (j *job) copyAll(ctx context.Context) error {
	for _, name := range j.files {
		if err := j.copyFile(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

const bufferSize = 256 << 10

// copyFile opens a file and copies it. All files cannot be opened at the start, because a named pipe waits for its writer, which
// may write to another file before.
func (j *job) copyFile(ctx context.Context, name string) (err error) {
	src := os.Stdin
	if name != "-" {
		if src, err = os.Open(name); err != nil {
			return err
		}
		defer func() { _ = src.Close() }()
	}
	enlarge(src)
	enlarge(j.sink.f)
	if j.lines {
		return j.copyLines(ctx, src)
	}
	to := &paced{sink: j.sink, ctx: ctx}
	if !cli.Unlimited(j.limits) || j.schedule != nil {
		to.pace = j.pace
	}
	_, err = ioreader.Copy(ctx, to, source(src), ioreader.CopyOptions{BufferSize: bufferSize})
	return err
}

// paced is the output of a copy under a rate. [ioreader.Copy] would take the permits too, but for slices of at most 64 KiB, which suit
// streams that share a limiter. This copy shares it with nobody.
type paced struct {
	*sink

	ctx  context.Context // context of the copy
	pace *pace           // nil means no limit
}

// Write implements [io.Writer].
func (p *paced) Write(b []byte) (total int, err error) {
	if p.pace == nil {
		return p.sink.Write(b)
	}
	for len(b) > 0 {
		lease, err := p.pace.take(p.ctx, len(b))
		if err != nil {
			return total, err
		}
		n, err := p.sink.Write(b[:lease.Permits()])
		if total += n; err != nil {
			return total, err
		}
		b = b[n:]
	}
	return total, nil
}

// ReadFrom implements [io.ReaderFrom] for the slices of [ioreader.Copy].
func (p *paced) ReadFrom(r io.Reader) (total int64, err error) {
	slice, ok := r.(*io.LimitedReader)
	if p.pace == nil || !ok {
		return p.sink.ReadFrom(r)
	}
	for slice.N > 0 {
		lease, err := p.pace.take(p.ctx, int(slice.N))
		if err != nil {
			return total, err
		}
		want := int64(lease.Permits())
		n, err := p.sink.ReadFrom(&io.LimitedReader{R: slice.R, N: want})
		slice.N -= n
		total += n
		if n < want {
			lease.Settle(int(n)) // the rest was not there
			return total, err
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// copyLines copies whole lines, with one permit for each. The last line may lack its end.
func (j *job) copyLines(ctx context.Context, from io.Reader) error {
	in, out := bufio.NewReaderSize(from, bufferSize), bufio.NewWriterSize(j.sink, bufferSize)
	defer func() { _ = out.Flush() }() // a signal leaves whole lines, which have permits
	for long := false; ; {             // long: the next piece continues a line
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		piece, err := in.ReadSlice(j.end)
		if len(piece) > 0 && !long {
			if err := j.payLine(ctx, out); err != nil {
				return err
			}
			j.passed.Add(1)
		}
		_, _ = out.Write(piece) // Flush returns the error
		if long = errors.Is(err, bufio.ErrBufferFull); err != nil && !long {
			if failed := out.Flush(); failed != nil || errors.Is(err, io.EOF) {
				return failed
			}
			return err
		}
	}
}

// payLine takes a permit for a line. While it waits, nothing stays in out.
func (j *job) payLine(ctx context.Context, out *bufio.Writer) error {
	if j.pace.TryAcquire(1).Acquired() {
		return ctx.Err()
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := j.pace.take(ctx, 1)
	return err
}

// sink is the output. It counts the bytes written.
type sink struct {
	f       *os.File
	regular bool
	n       atomic.Int64
}

// Write implements [io.Writer].
func (s *sink) Write(b []byte) (int, error) {
	n, err := s.f.Write(b)
	s.n.Add(int64(n))
	return n, err
}

// ReadFrom implements [io.ReaderFrom]: the kernel copies what it can.
func (s *sink) ReadFrom(r io.Reader) (int64, error) {
	n := s.move(r)
	m, err := s.f.ReadFrom(r) // the rest
	s.n.Add(m)
	return n + m, err
}

// say prints a message while the copy runs.
func (j *job) say(text string) {
	if j.progress == "" { // JSON is alone on stderr
		_, _ = fmt.Fprintf(j.screen.Above(os.Stderr), "sluice throttle: %s\n", text)
	}
}
