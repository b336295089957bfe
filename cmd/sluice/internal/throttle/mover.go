package throttle

import (
	"bytes"
	"io"
)

// mover moves a file to the output in two steps, so that nothing is paid for that is not there.
type mover interface {
	// ready waits until there is something to move and returns how many permits that takes at most; io.EOF at the end.
	ready() (permits int, err error)

	// move moves at most as many as are paid for, and returns how many that were, and how many bytes.
	move(permits int) (moved, bytes int, err error)
}

const bufferSize = 256 << 10

// through moves bytes through a buffer.
type through struct {
	dst  io.Writer
	src  io.Reader
	buf  []byte
	left []byte // of buf: read and not yet written
}

func newThrough(dst io.Writer, src io.Reader) *through {
	return &through{dst: dst, src: src, buf: make([]byte, bufferSize)}
}

func (m *through) ready() (int, error) {
	for len(m.left) == 0 {
		n, err := m.src.Read(m.buf)
		if m.left = m.buf[:n]; n == 0 && err != nil {
			return 0, err
		}
	}
	return len(m.left), nil
}

func (m *through) move(n int) (int, int, error) {
	k, err := m.dst.Write(m.left[:n])
	m.left = m.left[k:]
	return k, k, err
}

// byLine moves whole lines: a permit is one of them, and none waits in its middle. One that is longer than the buffer
// passes in pieces, which follow each other at once.
type byLine struct {
	dst   io.Writer
	src   io.Reader
	end   byte
	buf   []byte
	from  int // buf[from:to] is read and not yet written
	to    int
	lines int // whole lines in there; the end of the input ends one as well
	over  error
}

func newByLine(dst io.Writer, src io.Reader, end byte) *byLine {
	return &byLine{dst: dst, src: src, end: end, buf: make([]byte, bufferSize)}
}

func (m *byLine) ready() (int, error) {
	for m.lines == 0 {
		if m.over != nil {
			if m.from == m.to {
				return 0, m.over
			}
			return 1, nil // the last one has no end
		}
		if m.to-m.from == len(m.buf) {
			return 1, nil // a long one
		}
		m.read()
	}
	return m.lines, nil
}

// read reads once, behind what is there.
func (m *byLine) read() {
	if m.from > 0 {
		m.to = copy(m.buf, m.buf[m.from:m.to])
		m.from = 0
	}
	n, err := m.src.Read(m.buf[m.to:])
	m.lines += bytes.Count(m.buf[m.to:m.to+n], []byte{m.end})
	m.to += n
	m.over = err
}

func (m *byLine) move(n int) (moved, written int, err error) {
	if m.lines == 0 {
		if written, err = m.moveLong(); err != nil {
			return 0, written, err
		}
		return 1, written, nil
	}
	// The end of the n-th line.
	end := m.from
	for moved < n && moved < m.lines {
		end += bytes.IndexByte(m.buf[end:m.to], m.end) + 1
		moved++
	}
	written, err = m.dst.Write(m.buf[m.from:end])
	if err != nil {
		moved = bytes.Count(m.buf[m.from:m.from+written], []byte{m.end})
	}
	m.from += written
	m.lines -= moved
	return moved, written, err
}

// moveLong writes the line that fills the buffer, or is the last without an end, to where it ends.
func (m *byLine) moveLong() (written int, err error) {
	for {
		piece := m.buf[m.from:m.to]
		if m.lines > 0 {
			piece = piece[:bytes.IndexByte(piece, m.end)+1]
		}
		n, err := m.dst.Write(piece)
		written += n
		m.from += n
		if err != nil {
			return written, err
		}
		if m.lines > 0 {
			m.lines--
			return written, nil
		}
		if m.over != nil {
			return written, nil //nolint:nilerr // ready tells of the end, and of an error
		}
		m.read()
	}
}
