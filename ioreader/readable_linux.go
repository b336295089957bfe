package ioreader

import (
	"os"
	"syscall"
	"unsafe"
)

// canSplice: the kernel moves bytes from a connection to another, or to a file.
const canSplice = true

// readable waits until the connection has bytes to be read, and returns how many; 0: its end
// or an error has come, which the next Read returns.
//
// A splice is asked for just these: of more it would wait for all, seconds long where bytes
// come one by one, deaf to the context and without a word of progress. The price is two
// system calls more for each splice, which move no bytes.
func readable(c syscall.Conn) (int64, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n int32
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		var peeked [1]byte
		k, _, err := syscall.Recvfrom(int(fd), peeked[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		for err == syscall.EINTR {
			k, _, err = syscall.Recvfrom(int(fd), peeked[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		}
		if err == syscall.EAGAIN {
			return false // the poller waits, and calls again
		}
		if err != nil || k == 0 {
			return true
		}
		// There is no call for it in package syscall. n outlives the call, and has the size
		// that the kernel writes, an int.
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
		if errno != 0 {
			failed = os.NewSyscallError("ioctl", errno)
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return int64(n), err
}
