package throttle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// job copies the files to the output, one after the other.
type job struct {
	ctx   context.Context //nolint:containedctx // that of the whole program
	pace  *pace
	files []string
	dst   *os.File
	lines bool
	end   byte
	begun time.Time

	bytes, permits atomic.Int64
	paid           int   // permits that were paid for and not used yet
	failed         bool  // a file could not be read; the others were
	size           int64 // that is expected; 0: unknown

	mu     sync.Mutex // guards screen
	screen io.Writer  // where messages go
}

func (o options) open(ctx context.Context, p *pace) (*job, error) {
	j := &job{ctx: ctx, pace: p, files: o.files, dst: os.Stdout, lines: o.lines, end: o.end, screen: os.Stderr}
	if o.style == asJSON {
		j.screen = io.Discard
	}
	if o.out != "-" {
		if info, err := os.Stat(o.out); err == nil && info.Mode().IsRegular() {
			for _, name := range o.files {
				if in, err := stat(name); err == nil && os.SameFile(in, info) {
					return nil, fmt.Errorf("%s is read and written", o.out)
				}
			}
		}
		f, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return nil, err
		}
		j.dst = f
	} else if outputIsMissing() {
		return nil, errors.New("standard output is closed: to discard what is copied, use -o /dev/null")
	}
	if j.size = o.size; j.size == 0 && !j.lines {
		j.size = sizeOf(o.files)
	}
	j.begun = time.Now()
	return j, nil
}

// sizeOf returns how large the files are together, 0 if that is not known of one.
func sizeOf(names []string) (sum int64) {
	for _, name := range names {
		info, err := stat(name)
		switch {
		case err != nil: // reported when it is its turn
		case !info.Mode().IsRegular():
			return 0
		case name == "-":
			sum += info.Size() - min(at(os.Stdin), info.Size())
		default:
			sum += info.Size()
		}
	}
	return sum
}

// stat is [os.Stat], - being standard input.
func stat(name string) (os.FileInfo, error) {
	if name == "-" {
		return os.Stdin.Stat()
	}
	return os.Stat(name)
}

// at returns how far into a file its next read begins.
func at(f *os.File) int64 {
	n, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return n
}

// copyAll copies the files. One that can't be read is reported, and the next goes on.
func (j *job) copyAll() error {
	for _, name := range j.files {
		if err := j.copyFile(name); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) copyFile(name string) error {
	src := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			j.failed = true
			j.say(err.Error())
			return nil
		}
		defer func() { _ = f.Close() }()
		src = f
	}
	if why := j.refuses(src); why != "" {
		j.failed = true
		j.say(why)
		return nil
	}
	m := newMover(j.dst, src)
	if j.lines {
		m = newByLine(j.dst, src, j.end)
	}
	for {
		since := time.Now()
		n, err := m.ready()
		j.pace.paused(time.Since(since))
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			j.failed = true
			j.say(err.Error())
			return nil
		}
		if err := j.pass(m, n); err != nil {
			return err
		}
	}
}

// refuses says why a file is not copied; "": it is.
func (j *job) refuses(src *os.File) string {
	info, err := src.Stat()
	if err != nil {
		return "" // reading it tells
	}
	to, err := j.dst.Stat()
	switch {
	case info.IsDir():
		return fmt.Sprintf("read %s: is a directory", src.Name())
	case err == nil && info.Mode().IsRegular() && os.SameFile(info, to):
		return src.Name() + " is read and written" // what is written would be read again, without end
	}
	return ""
}

// pass moves n permits, paid for slice by slice.
func (j *job) pass(m mover, n int) error {
	for n > 0 {
		if j.paid == 0 {
			k, err := j.pace.pay(j.ctx)
			if err != nil {
				return err
			}
			j.paid = k
		}
		moved, bytes, err := m.move(min(j.paid, n))
		j.paid -= moved
		j.permits.Add(int64(moved))
		j.bytes.Add(int64(bytes))
		if err != nil {
			return err
		}
		if moved == 0 {
			return nil // look again what is there
		}
		n -= moved
		if j.ctx.Err() != nil {
			return context.Cause(j.ctx)
		}
	}
	return nil
}

// say tells a person something in the middle of the copy.
func (j *job) say(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = fmt.Fprintf(j.screen, "sluice throttle: %s\n", text)
}

// close closes the output, which is when some errors come up.
func (j *job) close() error {
	if j.dst == os.Stdout {
		return nil
	}
	return j.dst.Close()
}
