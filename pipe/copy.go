package pipe

import (
	"errors"
	"io"
	"sync"
)

var (
	errBadRead  = errors.New("pipe: invalid count from Read")
	errBadWrite = errors.New("pipe: invalid count from Write")
)

// buffers are what WriteTo and ReadFrom copy through.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// writeTo is a WriteTo by r's Read. It is not on r's turn while it is at w, which may take
// its time.
func writeTo(w io.Writer, r io.Reader) (n int64, err error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	for {
		k, err := r.Read(buffer[:])
		if k > 0 {
			m, err := w.Write(buffer[:k])
			if m < 0 || m > k {
				return n, errBadWrite
			}
			n += int64(m)
			if err != nil {
				return n, err
			}
			if m < k {
				return n, io.ErrShortWrite
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// readFrom is a ReadFrom by w's Write.
func readFrom(w io.Writer, r io.Reader) (n int64, err error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	for {
		k, err := r.Read(buffer[:])
		if k < 0 || k > len(buffer) {
			return n, errBadRead
		}
		if k > 0 {
			m, err := w.Write(buffer[:k])
			n += int64(m)
			if err != nil {
				return n, err
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
