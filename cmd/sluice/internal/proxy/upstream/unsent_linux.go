package upstream

import "golang.org/x/sys/unix"

// unsent returns how many bytes of a connection its peer has not acknowledged.
func unsent(fd uintptr) int {
	n, _ := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	return n
}
