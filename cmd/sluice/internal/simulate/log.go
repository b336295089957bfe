package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// log is one log, which is read in a goroutine of its own.
type log struct {
	name  string
	file  io.ReadCloser
	plan  *engine.Plan
	out   chan []engine.Request // closed at the end of the log
	lines *accesslog.Log        // the goroutine's until out is closed
	times engine.Times          // the same
	err   error                 // the same; why the log ended early
}

// openLog opens a file; "-" is stdin.
func openLog(name string, stdin io.Reader, lines *accesslog.Log, p *engine.Plan) (*log, error) {
	l := &log{name: name, lines: lines, plan: p, out: make(chan []engine.Request, 4)}
	if name == "-" {
		l.name, l.file = "stdin", io.NopCloser(stdin)
		return l, nil
	}
	var err error
	l.file, err = os.Open(name)
	return l, err
}

const batchSize = 2048

// run reads the log until it ends or ctx is done.
func (l *log) run(ctx context.Context) {
	defer close(l.out)
	defer func() { _ = l.file.Close() }()
	err := l.read(ctx)
	if errors.Is(err, accesslog.ErrFormat) {
		err = fmt.Errorf("%w; plain, or compressed with gzip, bzip2 or zstd", err)
	}
	if err != nil {
		l.err = fmt.Errorf("%s: %w", l.name, err)
	}
}

func (l *log) read(ctx context.Context) error {
	text, err := accesslog.Decompress(l.file)
	if err != nil {
		return err
	}
	defer func() { _ = text.Close() }()
	batch := make([]engine.Request, 0, batchSize)
	each := func(q engine.Request) error {
		if batch = append(batch, q); len(batch) < batchSize {
			return nil
		}
		full := batch
		batch = make([]engine.Request, 0, batchSize)
		return l.send(ctx, full)
	}
	o := engine.NewOrder(each)
	err = l.lines.Read(text, func(r *accesslog.Record) error { return o.Add(l.plan.Request(r)) })
	if err == nil {
		err = o.End()
	}
	l.times = o.Times
	if err == nil && len(batch) > 0 {
		err = l.send(ctx, batch)
	}
	return err
}

func (l *log) send(ctx context.Context, batch []engine.Request) error {
	select {
	case l.out <- batch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Open opens a log. Reads return its decompressed text.
func Open(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := accesslog.Decompress(f)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return opened{text, f}, nil
}

// opened is a log's text, and its file.
type opened struct {
	io.ReadCloser
	file io.Closer
}

func (o opened) Close() error { return errors.Join(o.ReadCloser.Close(), o.file.Close()) }
