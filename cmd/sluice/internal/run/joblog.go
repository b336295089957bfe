package run

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// result is how a job ended.
type result struct {
	begun    time.Time
	took     time.Duration
	received int64 // bytes of standard output
	status   int   // -1: it took longer than it may
	signal   int
}

func (r result) failed() bool { return r.status != 0 || r.signal != 0 }

// joblog writes a line for each job, in the columns of GNU parallel.
type joblog struct {
	mu sync.Mutex
	f  *os.File
}

const joblogHeader = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand"

// openJoblog begins a joblog, or appends to the one that exists. There, it removes a line that was cut off, so that the
// next one does not continue it.
func openJoblog(name string, appends bool) (_ *joblog, err error) {
	flags := os.O_CREATE | os.O_RDWR | os.O_APPEND
	if !appends {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(name, flags, 0o666)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	end := int64(0)
	if info.Mode().IsRegular() {
		if end, err = endOfLines(f, info.Size()); err == nil {
			err = f.Truncate(end)
		}
		if err != nil {
			return nil, err
		}
	}
	if end == 0 {
		if _, err := fmt.Fprintln(f, joblogHeader); err != nil {
			return nil, err
		}
	}
	return &joblog{f: f}, nil
}

// endOfLines returns where the last whole line of a file of size bytes ends.
func endOfLines(f io.ReaderAt, size int64) (int64, error) {
	var b [4 << 10]byte
	for size > 0 {
		piece := b[:min(size, int64(len(b)))]
		if _, err := f.ReadAt(piece, size-int64(len(piece))); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(piece, '\n'); i >= 0 {
			return size - int64(len(piece)) + int64(i) + 1, nil
		}
		size -= int64(len(piece))
	}
	return 0, nil
}

// add writes the line of a job. A nil joblog writes nothing.
func (l *joblog) add(seq int, r result, command string) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := float64(r.begun.UnixMicro()) / 1e6
	_, err := fmt.Fprintf(l.f, "%d\t:\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n",
		seq, at, r.took.Seconds(), r.received, r.status, r.signal, strings.ReplaceAll(command, "\n", `\n`))
	return err
}

// logged is what a joblog says of a job. The latest line counts.
type logged struct {
	text   string
	failed bool
}

// mostLogged bounds the numbers in a joblog, and so the memory that a wrong one takes.
const mostLogged = 1 << 26

// eachLogged calls f for each line of a joblog.
func eachLogged(name string, f func(seq int, l logged)) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	r := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil // a line without an end was cut off while it was written
		}
		if err != nil {
			return err
		}
		if n == 1 && strings.HasPrefix(line, "Seq\t") {
			continue
		}
		columns := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 9)
		seq, err := strconv.Atoi(columns[0])
		if err != nil || seq < 1 || seq > mostLogged || len(columns) < 9 {
			return fmt.Errorf("%s:%d: no line of a joblog", name, n)
		}
		f(seq, logged{columns[8], columns[6] != "0" || columns[7] != "0"})
	}
}

// readJoblog returns which jobs need not run again: all that are in the log, or, if failedAgain, those that did not fail.
func readJoblog(name string, failedAgain bool) (map[int]bool, error) {
	done := make(map[int]bool)
	err := eachLogged(name, func(seq int, l logged) { done[seq] = !l.failed || !failedAgain })
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return done, err
}
