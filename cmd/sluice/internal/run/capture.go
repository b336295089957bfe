package run

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// capture keeps what a job prints until it may be shown: in memory, or, if it is long, in a temporary file.
type capture struct {
	memory []byte
	file   *os.File
	size   int64
	err    error // why not all of it was kept
}

// maxInMemory is how much of one stream of one job is kept in memory.
const maxInMemory = 64 << 10

func (c *capture) write(b []byte) {
	c.size += int64(len(b))
	switch {
	case c.err != nil:
	case c.file != nil:
		_, c.err = c.file.Write(b)
	case len(c.memory)+len(b) <= maxInMemory:
		c.memory = append(c.memory, b...)
	default:
		if c.file, c.err = os.CreateTemp("", "sluice-run-"); c.err == nil {
			_ = os.Remove(c.file.Name()) // the file lives until it is closed; if the system refuses this, close removes it
			_, c.err = c.file.Write(append(c.memory, b...))
			c.memory = nil
		}
	}
}

// moveTo moves the first n bytes to w, or returns the reason why some are missing.
func (c *capture) moveTo(w io.Writer, n int64) error {
	before := *c
	*c = capture{}
	defer before.close()
	var r io.Reader = bytes.NewReader(before.memory)
	if before.err != nil {
		return fmt.Errorf("keeping a job's output: %w", before.err)
	}
	if before.file != nil {
		if _, err := before.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		r = before.file
	}
	if _, err := io.CopyN(w, r, n); err != nil {
		return err
	}
	_, err := io.Copy(writerFunc(c.write), r)
	return err
}

type writerFunc func(b []byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

// close drops the captured output.
func (c *capture) close() {
	if c.file != nil {
		_ = c.file.Close()
		_ = os.Remove(c.file.Name())
	}
	*c = capture{}
}
