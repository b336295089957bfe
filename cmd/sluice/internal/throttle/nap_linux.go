package throttle

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// newNap returns what one goroutine sleeps by, in the kernel, on its own thread. A timer of the runtime would wake one
// thread to run it and another one to go on, hundreds of times a second: that takes twice the processor time. A sleep may
// end early.
func newNap() func(time.Duration) {
	naps := 0
	return func(d time.Duration) {
		naps++
		if naps%2 == 0 {
			// The runtime takes the processor from a goroutine that has not yielded for 10 ms, though it may be in
			// the kernel, and then looks every 20 us for other work. Two slices take less than 10 ms.
			runtime.Gosched()
		}
		t := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&t, nil)
	}
}
