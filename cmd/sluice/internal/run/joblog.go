package run

import (
	"bufio"
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

// openJoblog begins a joblog, or goes on with the one that is there.
func openJoblog(name string, goOn bool) (*joblog, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !goOn {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(name, flags, 0o666)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() == 0 {
		_, err = fmt.Fprintln(f, joblogHeader)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &joblog{f: f}, nil
}

func (l *joblog) add(seq int, r result, command string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := float64(r.begun.UnixMicro()) / 1e6
	_, err := fmt.Fprintf(l.f, "%d\t:\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n",
		seq, at, r.took.Seconds(), r.received, r.status, r.signal, strings.ReplaceAll(command, "\n", `\n`))
	return err
}

// readJoblog returns which jobs need not run again: all that are in the log, or only those that went well.
func readJoblog(name string, againFailed bool) (map[int]bool, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing is done yet
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	done := make(map[int]bool)
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return done, nil // what has no end was cut off while it was written
		}
		if err != nil {
			return nil, err
		}
		if n == 1 && strings.HasPrefix(line, "Seq\t") {
			continue
		}
		columns := strings.SplitN(line, "\t", 9)
		seq, err := strconv.Atoi(columns[0])
		if err != nil || len(columns) < 9 {
			return nil, fmt.Errorf("%s:%d: no line of a joblog", name, n)
		}
		went := columns[6] == "0" && columns[7] == "0"
		done[seq] = went || !againFailed
	}
}
