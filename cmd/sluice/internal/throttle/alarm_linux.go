package throttle

import (
	"encoding/binary"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is what the copy sleeps by: in the kernel, on its own thread. A timer of the runtime's would wake one thread to
// run it and another to go on, hundreds of times a second.
type alarm struct {
	fd     int // an eventfd, which lives as long as the program
	sleeps int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return &alarm{fd: fd}, err
}

// ring ends the sleep that goes on, or the next one.
func (a *alarm) ring() {
	_, _ = unix.Write(a.fd, binary.NativeEndian.AppendUint64(nil, 1)) // fails only if it has rung very often
}

// sleep returns after d, when the alarm rings, or earlier. It is for one goroutine.
func (a *alarm) sleep(d time.Duration) {
	a.sleeps++
	if a.sleeps%2 == 0 {
		// The runtime takes the processor from a goroutine that has not yielded it for 10 ms, though it may be in the
		// kernel, and then looks every 20 us for others to take. Two slices are less than that.
		runtime.Gosched()
	}
	polled := []unix.PollFd{{Fd: int32(a.fd), Events: unix.POLLIN}}
	left := unix.NsecToTimespec(int64(d))
	if n, err := unix.Ppoll(polled, &left, nil); err == nil && n > 0 {
		var rings [8]byte
		_, _ = unix.Read(a.fd, rings[:])
	}
}
