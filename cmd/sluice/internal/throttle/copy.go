package throttle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/spec"
)

// job copies the files to the output, one after the other.
type job struct {
	options

	pace  *pace
	sink  *sink
	start time.Time

	passed atomic.Int64 // lines
	total  int64        // expected bytes, or lines; 0: unknown
	failed bool         // a file could not be read; the others were copied

	mu     sync.Mutex // guards screen
	screen io.Writer  // where messages go
}

func (o options) open(p *pace) (*job, error) {
	j := &job{options: o, pace: p, sink: &sink{f: os.Stdout}, screen: os.Stderr, total: o.size}
	if o.style == asJSON {
		j.screen = io.Discard
	}
	if o.out == "-" {
		if err := cli.CheckStdout("use -o /dev/null to discard the data"); err != nil {
			return nil, err
		}
	} else {
		if info, err := os.Stat(o.out); err == nil {
			for _, name := range o.files {
				if in, err := stat(name); err == nil && same(in, info) {
					return nil, fmt.Errorf("%s is read and written; write to another file", o.out)
				}
			}
		}
		f, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return nil, err
		}
		j.sink.f = f
	}
	if j.total == 0 && !o.lines {
		j.total = sizeOf(o.files)
	}
	j.start = time.Now()
	return j, nil
}

// same reports whether both are the same regular file. A copy to itself would read its own output without end.
func same(a, b os.FileInfo) bool { return a.Mode().IsRegular() && os.SameFile(a, b) }

// sizeOf returns the number of bytes to read from the files, or 0 if the size of one of them is unknown.
func sizeOf(names []string) (sum int64) {
	for _, name := range names {
		info, err := stat(name)
		switch {
		case err != nil: // copyFile reports it
		case !info.Mode().IsRegular():
			return 0
		default:
			sum += info.Size()
			if name == "-" {
				at, _ := os.Stdin.Seek(0, io.SeekCurrent)
				sum -= min(at, info.Size())
			}
		}
	}
	return sum
}

// stat is [os.Stat]; - is stdin.
func stat(name string) (os.FileInfo, error) {
	if name == "-" {
		return os.Stdin.Stat()
	}
	return os.Stat(name)
}

// copyAll copies the files. One that cannot be read is reported, and the copy continues with the next.
func (j *job) copyAll(ctx context.Context) error {
	for _, name := range j.files {
		var read *fs.PathError
		err := j.copyFile(ctx, name)
		switch {
		case errors.As(err, &read) && (read.Op == "open" || read.Op == "read"):
			j.failed = true
			j.say(err.Error())
		case err != nil:
			return err
		}
	}
	return nil
}

const bufferSize = 256 << 10

func (j *job) copyFile(ctx context.Context, name string) error {
	src := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		src = f
	}
	in, err := src.Stat()
	if err != nil {
		return err
	}
	out, err := j.sink.f.Stat()
	if err != nil {
		return err
	}
	if same(in, out) {
		j.failed = true
		j.say(src.Name() + " is read and written; write to another file")
		return nil
	}
	var from io.Reader = src
	if !in.Mode().IsRegular() {
		from = source{src, j.pace} // a file does not make the copy wait, and the kernel copies it
	}
	j.sink.regular = out.Mode().IsRegular()
	enlarge(src, j.pace.pipeSize())
	enlarge(j.sink.f, j.pace.pipeSize())
	if j.lines {
		return j.copyLines(ctx, from)
	}
	var limiter core.Limiter
	if j.limit.Kind != spec.Unlimited || j.schedule != nil {
		limiter = j.pace
	}
	_, err = ioreader.Copy(ctx, j.sink, from, ioreader.CopyOptions{Limiter: limiter, BufferSize: bufferSize})
	return err
}

// copyLines copies whole lines, with one permit for each. The last line may lack its end.
func (j *job) copyLines(ctx context.Context, from io.Reader) error {
	in, out := bufio.NewReaderSize(from, bufferSize), bufio.NewWriterSize(j.sink, bufferSize)
	waiting := 0 // lines in out
	flush := func() error {
		err := out.Flush()
		if err == nil {
			j.passed.Add(int64(waiting))
			waiting = 0
		}
		return err
	}
	for paid := false; ; {
		if in.Buffered() == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
		piece, readErr := in.ReadSlice(j.end)
		if len(piece) > 0 && !paid {
			if !j.pace.TryAcquire(1).Acquired() {
				if err := flush(); err != nil {
					return err
				}
				if _, err := j.pace.Acquire(ctx, 1); err != nil {
					return err
				}
			}
			paid = true
		}
		if _, err := out.Write(piece); err != nil {
			return err
		}
		if paid && !errors.Is(readErr, bufio.ErrBufferFull) { // otherwise a long line continues
			paid = false
			waiting++
		}
		if readErr != nil && !errors.Is(readErr, bufio.ErrBufferFull) {
			if err := flush(); err != nil || errors.Is(readErr, io.EOF) {
				return err
			}
			return readErr
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// source is an input that may make the copy wait. The copy does not catch up after such a wait.
type source struct {
	r    io.Reader
	pace *pace
}

// Read implements [io.Reader].
func (s source) Read(b []byte) (int, error) {
	since := time.Now()
	n, err := s.r.Read(b)
	s.pace.paused(time.Since(since))
	return n, err
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

// ReadFrom implements [io.ReaderFrom]: the kernel copies a file.
func (s *sink) ReadFrom(r io.Reader) (n int64, err error) {
	if !s.regular {
		n = sendFile(s.f, r)
	}
	m, err := s.f.ReadFrom(r) // the rest; it does not use the kernel for a pipe
	s.n.Add(n + m)
	return n + m, err
}

// say prints a message while the copy runs.
func (j *job) say(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = fmt.Fprintf(j.screen, "sluice throttle: %s\n", text)
}

// close closes the output, which is when some errors show.
func (j *job) close() error {
	if j.sink.f == os.Stdout {
		return nil
	}
	return j.sink.f.Close()
}
