package upstream

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnsent has the kernel hold few bytes that a backend has no room for yet. A slow one would otherwise get a request of
// megabytes long after it was written, and would seem silent meanwhile.
func limitUnsent(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, 16<<10)
	})
}
