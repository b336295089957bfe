package run

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// capture keeps what a job prints until it may be shown: in memory, and what is beyond reason in a temporary file.
type capture struct {
	memory []byte
	file   *os.File
	size   int64
	err    error // why not all of it was kept
}

// mostInMemory is how much of one stream of one job is kept in memory.
const mostInMemory = 64 << 10

func (c *capture) Write(b []byte) (n int, err error) {
	c.size += int64(len(b))
	if c.err != nil {
		return 0, c.err
	}
	defer func() { c.err = err }()
	if c.file == nil {
		if len(c.memory)+len(b) <= mostInMemory {
			c.memory = append(c.memory, b...)
			return len(b), nil
		}
		f, err := os.CreateTemp("", "sluice-run-")
		if err != nil {
			return 0, err
		}
		c.file = f
		_ = os.Remove(f.Name()) // it lives until it is closed; where that is refused, close removes it
		if _, err := f.Write(c.memory); err != nil {
			return 0, err
		}
		c.memory = nil
	}
	return c.file.Write(b)
}

// reader returns all that was captured, from the beginning, or why something is missing.
func (c *capture) reader() (io.Reader, error) {
	if c.err != nil {
		return nil, fmt.Errorf("keeping a job's output: %w", c.err)
	}
	if c.file == nil {
		return bytes.NewReader(c.memory), nil
	}
	_, err := c.file.Seek(0, io.SeekStart)
	return c.file, err
}

// close lets go of what was captured.
func (c *capture) close() {
	if c.file != nil {
		_ = c.file.Close()
		_ = os.Remove(c.file.Name())
	}
	*c = capture{}
}

// reset empties it, and keeps its memory for what comes next.
func (c *capture) reset() {
	memory := c.memory[:0]
	c.close()
	c.memory = memory
}
