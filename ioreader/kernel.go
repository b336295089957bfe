package ioreader

import (
	"io"
	"io/fs"
	"syscall"
)

// kernel is a file and a sink whose ReadFrom may let the kernel move the file's bytes, by sendfile
// or by a copy from file to file. If the kernel cannot, ReadFrom copies them.
type kernel struct {
	sink io.ReaderFrom
	file file
	here int64 // bytes known to be left in the file
}

// file is an *os.File, or the wrapper by which package os hides its WriteTo.
type file interface {
	fs.File
	io.Seeker
	syscall.Conn
}

func kernelPath(dst io.Writer, src io.Reader) (kernel, bool) {
	sink, ok := dst.(io.ReaderFrom)
	if _, inMemory := dst.(contextWriter); !ok || inMemory {
		return kernel{}, false
	}
	f, ok := src.(file)
	if !ok || !regular(f) {
		return kernel{}, false
	}
	if d, ok := dst.(file); ok && !regular(d) {
		return kernel{}, false
	}
	return kernel{sink: sink, file: f}, true
}

func regular(f file) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// left returns how many bytes are left in the file, so that no call waits for permits that are not
// needed. 0 means that the end is reached or that the file does not report its size, like those in
// /proc; a Read shows which.
func (k *kernel) left() (int64, error) {
	if k.here > 0 {
		return k.here, nil
	}
	at, err := k.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	info, err := k.file.Stat()
	if err != nil {
		return 0, err
	}
	k.here = max(info.Size()-at, 0)
	return k.here, nil
}

// offloadSlice is the maximum number of bytes moved before the context is checked and progress is
// reported. It is large enough to hide the cost of the system calls between two slices.
const offloadSlice = 1 << 20

// offload moves at most want bytes by the sink's ReadFrom, while the file reports that some are
// left. done reports whether all of want were moved.
func (p pump) offload(k kernel, want int64) (total int64, done bool, err error) {
	slice := &io.LimitedReader{R: k.file}
	for want > 0 {
		if err := p.side.ended(); err != nil {
			return total, false, err
		}
		left, err := k.left()
		if err != nil || left == 0 {
			return total, false, err
		}
		n, m, err := p.offloadSlice(k, slice, min(want, left, offloadSlice))
		total += m
		want -= m
		k.here -= m
		if err != nil || m < n {
			return total, false, err
		}
	}
	return total, true, nil
}

// offloadSlice moves one slice of want bytes. It returns the length n of the slice and how many
// bytes m of it were moved.
func (p pump) offloadSlice(k kernel, slice *io.LimitedReader, want int64) (n, m int64, err error) {
	s := p.side
	if err := s.enter(); err != nil {
		return 0, 0, err
	}
	defer s.leave()
	n = want
	if p.paid == onRead && s.arrived.any() {
		return n, 0, nil // kept by another call after passArrived; m < n makes run read them first
	}
	if !s.unlimited() {
		taken, err := s.pay(int(want))
		if err != nil {
			return 0, 0, err
		}
		n = int64(taken)
		if p.paid == onRead {
			s.meter.Release() // a reading side holds nothing
		}
	}
	slice.N = n
	m, err = k.sink.ReadFrom(slice)
	if m < 0 || m > n {
		return n, 0, errBadCount
	}
	s.meter.Settle(int(m))
	if p.passed != nil && m > 0 {
		p.passed(int(m))
	}
	return n, m, err
}
