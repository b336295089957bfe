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
	start    time.Time
	took     time.Duration
	received int64 // bytes of stdout
	status   int   // timedOut, or an exit status
	signal   int
}

const timedOut = -1

func (r result) failed() bool { return r.status != 0 || r.signal != 0 }

// joblog writes a line for each job, in the columns of GNU parallel.
type joblog struct {
	mu sync.Mutex
	f  *os.File
}

const joblogHeader = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand"

// openJoblog starts a joblog, or appends to an existing one, from which it removes an incomplete last line. It returns the
// jobs in the log: true if a job succeeded, false if it failed.
func openJoblog(name string, appends bool) (l *joblog, succeeded map[int]bool, err error) {
	flags := os.O_CREATE | os.O_RDWR | os.O_APPEND
	if !appends {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(name, flags, 0o666)
	if err != nil {
		return nil, nil, err
	}
	end := int64(0)
	if appends {
		if succeeded, end, err = readJoblog(f); err != nil {
			return nil, nil, err
		}
		err = f.Truncate(end)
	}
	if end == 0 && err == nil {
		_, err = fmt.Fprintln(f, joblogHeader)
	}
	return &joblog{f: f}, succeeded, err
}

// add writes the line of a job. A nil joblog writes nothing.
func (l *joblog) add(seq int, r result, command string) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := float64(r.start.UnixMicro()) / 1e6
	_, err := fmt.Fprintf(l.f, "%d\t:\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n",
		seq, at, r.took.Seconds(), r.received, r.status, r.signal, strings.ReplaceAll(command, "\n", `\n`))
	return err
}

// readJoblog returns which jobs succeeded and which failed, and where the last whole line ends. The latest line of a job
// counts.
func readJoblog(f *os.File) (succeeded map[int]bool, end int64, err error) {
	succeeded = make(map[int]bool)
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return succeeded, end, nil // the last line is incomplete
		}
		if err != nil {
			return nil, 0, err
		}
		end += int64(len(line))
		if n == 1 && strings.HasPrefix(line, "Seq\t") {
			continue
		}
		columns := strings.SplitN(line, "\t", 9)
		seq, err := strconv.Atoi(columns[0])
		if err != nil || seq < 1 || len(columns) < 9 {
			return nil, 0, fmt.Errorf("%s:%d: not a line of a joblog", f.Name(), n)
		}
		succeeded[seq] = columns[6] == "0" && columns[7] == "0"
	}
}
