package ioreader

import (
	"io"
	"io/fs"
	"net"
	"syscall"
)

// kernel is a source and a sink between which the kernel may move bytes by itself.
type kernel struct {
	sink   io.ReaderFrom
	source io.Reader
	file   file         // nil: the source is a connection
	conn   syscall.Conn // nil: the source is a file
	here   int64        // bytes that are known to be left of the file
}

// file is an *os.File, or what os makes of one to hide its WriteTo.
type file interface {
	fs.File
	io.Seeker
	syscall.Conn
}

// kernelPath finds out whether the sink's ReadFrom may keep the bytes of the source in
// the kernel. If it can't after all, it falls back to copying, slice by slice.
func kernelPath(dst io.Writer, src io.Reader) (kernel, bool) {
	sink, ok := dst.(io.ReaderFrom)
	if !ok {
		return kernel{}, false
	}
	switch s := src.(type) {
	case file:
		if !regular(s) {
			return kernel{}, false
		}
		if d, ok := dst.(file); ok && !regular(d) {
			return kernel{}, false
		}
		return kernel{sink: sink, source: src, file: s}, true
	case *net.TCPConn:
		return kernel{sink: sink, source: src, conn: s}, canSplice && ofKernel(dst)
	case *net.UnixConn:
		return kernel{sink: sink, source: src, conn: s}, canSplice && ofKernel(dst) && s.LocalAddr().Network() == "unix"
	}
	return kernel{}, false
}

// ofKernel reports whether dst is a file or a connection of the kernel's, or one of this
// package around one.
func ofKernel(dst any) bool {
	switch d := dst.(type) {
	case *Writer:
		return ofKernel(d.w)
	case interface{ NetConn() net.Conn }:
		_, own := dst.(payer)
		return own && ofKernel(d.NetConn())
	}
	_, ok := dst.(syscall.Conn)
	return ok
}

func regular(f file) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// arrived returns how many bytes of the source are there, having waited for the first of a
// connection's. 0: the end may be there, or the source does not tell, as a file of /proc
// whose size is 0; a Read finds out.
func (k *kernel) arrived() (int64, error) {
	if k.conn != nil {
		return readable(k.conn)
	}
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

// offloadSlice is the most that is moved without looking at the context and telling of
// progress: so much that the system calls between two slices do not show.
const offloadSlice = 1 << 20

// offload moves at most left bytes by the sink's ReadFrom, as long as the source tells that
// there are some: so nobody waits for permits that nothing needs, nor for the source while
// holding any. done: all of left have passed.
func (p pump) offload(k kernel, left int64) (total int64, done bool, err error) {
	slice := &io.LimitedReader{R: k.source}
	for left > 0 {
		if err := p.ended(); err != nil {
			return total, false, err
		}
		here, err := k.arrived()
		if err != nil || here == 0 {
			return total, false, err
		}
		n, m, err := p.offloadSlice(k, slice, min(left, here, offloadSlice))
		total += m
		left -= m
		k.here -= m
		if err != nil || m < n {
			return total, false, err
		}
	}
	return total, true, nil
}

// offloadSlice moves one slice of want bytes, and returns how many were paid for and how
// many passed.
func (p pump) offloadSlice(k kernel, slice *io.LimitedReader, want int64) (n, m int64, err error) {
	s := p.side
	if err := s.enter(); err != nil {
		return 0, 0, err
	}
	defer s.leave()
	n = want
	if p.paid == onRead && s.came.any() {
		return n, 0, nil // since passArrived, by another call
	}
	if !s.unlimited() {
		taken, err := s.meter.Take(s.ctx, int(want))
		if err != nil {
			return 0, 0, s.explain(err)
		}
		n = int64(taken)
		if p.paid == onRead || s.nested {
			s.meter.Release() // the bytes are read; or the sink asks the same limiter
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
