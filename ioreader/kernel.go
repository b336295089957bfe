package ioreader

import (
	"io"
	"io/fs"
	"syscall"
)

// Splicer is a source other than a regular file whose bytes the kernel can move, such as a pipe of the operating
// system. [Copy], [Writer.ReadFrom] and [Reader.WriteTo] treat it as they treat an [os.File] with a regular file: if the
// destination is an [io.ReaderFrom], they call its ReadFrom with an [io.LimitedReader] around the Splicer. ReadFrom may move
// the bytes by splice(2) or the like, and subtracts them from the LimitedReader's N, or it reads them. Each slice of a
// file is a call of ReadFrom. Under a rate limiter, all slices of a Splicer whose permits are available, at most 1 MiB, are
// one call, so that a copy at a high rate makes few system calls.
type Splicer interface {
	io.Reader

	// Pending waits until bytes can be read, and returns how many can be moved without another wait. No permits are
	// held while it waits. If it returns 0, as at the end of the stream, the next bytes are read by Read.
	Pending() (int64, error)
}

// file is an *os.File, or the wrapper by which package os hides its WriteTo.
type file interface {
	fs.File
	io.Seeker
	syscall.Conn
}

// kernelPath returns a sink and a source if the sink's ReadFrom may let the kernel move the bytes, by sendfile, by splice
// or by a copy from file to file. If the kernel cannot, ReadFrom copies them.
func kernelPath(dst io.Writer, src io.Reader) (io.ReaderFrom, Splicer) {
	sink, ok := dst.(io.ReaderFrom)
	if _, inMemory := dst.(contextWriter); !ok || inMemory {
		return nil, nil
	}
	if d, ok := dst.(file); ok && !regular(d) {
		return nil, nil
	}
	switch src := src.(type) {
	case Splicer:
		return sink, src
	case file:
		if regular(src) {
			return sink, regularFile{src}
		}
	}
	return nil, nil
}

func regular(f file) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// regularFile is a file as a source for the kernel.
type regularFile struct{ file }

// Pending returns how many bytes are left in the file. It is 0 at the end, and of a file that does not report its size,
// like those in /proc.
func (f regularFile) Pending() (int64, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return max(info.Size()-at, 0), nil
}

// maxOffload is the maximum number of bytes moved before the context is checked and progress is
// reported. It is large enough to hide the cost of the system calls between two slices.
const maxOffload = 1 << 20

// offload moves at most want bytes by the sink's ReadFrom, while the source reports that some are
// left. done reports whether all of want were moved.
func (s *side) offload(sink io.ReaderFrom, src Splicer, want int64) (total int64, done bool, err error) {
	slice := &io.LimitedReader{R: src}
	file, isFile := src.(regularFile)
	if isFile {
		slice.R = file.file // the sink knows how to read a file itself
	}
	left := int64(0) // bytes known to be left in the source
	for total < want {
		if err := s.ended(); err != nil {
			return total, false, err
		}
		if left <= 0 {
			left, err = src.Pending()
		}
		if err != nil || left <= 0 {
			return total, false, err
		}
		n, m, err := s.offloadSlice(sink, slice, int(min(want-total, left, maxOffload)), !isFile)
		total += int64(m)
		left -= int64(m)
		if err != nil || m < n {
			return total, false, err
		}
	}
	return total, true, nil
}

// offloadSlice moves one slice of want bytes, or as many slices as have permits if gather is set. It returns the number n
// of bytes that have permits, and how many bytes m of them were moved.
func (s *side) offloadSlice(sink io.ReaderFrom, slice *io.LimitedReader, want int, gather bool) (n, m int, err error) {
	if err := s.enter(); err != nil {
		return 0, 0, err
	}
	defer s.leave()
	if s.arrived.len() > 0 {
		return want, 0, nil // kept by another call after copyArrived; m < n makes copy read them first
	}
	if n, err = s.pay(want); err != nil {
		return 0, 0, err
	}
	if gather {
		n += s.meter.Gather(want - n)
	}
	if s.reads {
		s.meter.Release() // a reading side holds nothing
	}
	slice.N = int64(n)
	moved, err := sink.ReadFrom(slice)
	if bad := s.settle(sink, int(moved), n); bad != nil {
		return n, 0, bad
	}
	return n, int(moved), err
}
