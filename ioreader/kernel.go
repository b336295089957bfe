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

// kernel is a source and a sink whose ReadFrom may let the kernel move the bytes, by sendfile, by splice or by a copy
// from file to file. If the kernel cannot, ReadFrom copies them.
type kernel struct {
	sink io.ReaderFrom
	src  Splicer
	here int64 // bytes known to be left in the source
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
	if d, ok := dst.(file); ok && !regular(d) {
		return kernel{}, false
	}
	switch src := src.(type) {
	case Splicer:
		return kernel{sink: sink, src: src}, true
	case file:
		return kernel{sink: sink, src: regularFile{src}}, regular(src)
	}
	return kernel{}, false
}

func regular(f file) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// left returns how many bytes are left in the source, so that no call waits for permits that are not needed. 0 means that
// only a Read shows what comes next.
func (k *kernel) left() (n int64, err error) {
	if k.here <= 0 {
		k.here, err = k.src.Pending()
	}
	return k.here, err
}

// reader returns what the sink knows how to read: a file itself.
func (k *kernel) reader() io.Reader {
	if f, ok := k.src.(regularFile); ok {
		return f.file
	}
	return k.src
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

// offloadSlice is the maximum number of bytes moved before the context is checked and progress is
// reported. It is large enough to hide the cost of the system calls between two slices.
const offloadSlice = 1 << 20

// offload moves at most want bytes by the sink's ReadFrom, while the source reports that some are
// left. done reports whether all of want were moved.
func (p pump) offload(k kernel, want int64) (total int64, done bool, err error) {
	slice := &io.LimitedReader{R: k.reader()}
	for want > 0 {
		if err := p.side.ended(); err != nil {
			return total, false, err
		}
		left, err := k.left()
		if err != nil || left <= 0 {
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
		if _, ok := k.src.(regularFile); !ok {
			taken += s.meter.Gather(int(want) - taken)
		}
		n = int64(taken)
		if p.paid == onRead {
			s.meter.Release() // a reading side holds nothing
		}
	}
	slice.N = n
	m, err = k.sink.ReadFrom(slice)
	if m < 0 || m > n {
		return n, 0, badCount(k.sink, int(m), int(n))
	}
	s.meter.Settle(int(m))
	if p.passed != nil && m > 0 {
		p.passed(int(m))
	}
	return n, m, err
}
