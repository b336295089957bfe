package upstream

import (
	"crypto/tls"
	"net"
	"syscall"
)

// Ticks is into how many parts a time without progress is divided.
const Ticks = 10

// Progress tells a peer that takes bytes slowly from one that takes none. The kernel accepts more bytes for a connection only
// after a large part of its buffer has been sent, which can take minutes, but its queue gets shorter with each byte sent.
type Progress struct{ last int }

// Moved reports whether the bytes that wait in the kernel for the peer of c are others than at the last call. It reports false
// where the kernel cannot tell.
func (p *Progress) Moved(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	if err := raw.Control(func(fd uintptr) { n = unsent(fd) }); err != nil {
		return false
	}
	moved := n != p.last
	p.last = n
	return moved
}
