package channel

import (
	"runtime"
	"sync"
)

// mutex is a sync.Mutex for critical sections that are far shorter than it takes to park
// a goroutine and wake it. One that finds it locked leaves it alone for a microsecond or
// two, as long as some dozens of sections take, tries again, and parks only after that.
type mutex struct{ sync.Mutex }

// Lock locks m.
func (m *mutex) Lock() {
	if !m.TryLock() {
		m.lockSlow()
	}
}

func (m *mutex) lockSlow() {
	// On one processor the holder cannot go on while others linger.
	if runtime.GOMAXPROCS(0) > 1 {
		for range lockTries {
			linger()
			if m.TryLock() {
				return
			}
		}
	}
	m.Mutex.Lock()
}

const (
	// Turns of an empty loop, one or two a nanosecond: long enough for the holder to work
	// undisturbed with the mutex in its core's cache, short of what parking costs.
	lingering = 4096
	// After as many the holder is not just slow: the system has stopped its thread.
	lockTries = 8
)

// linger lets time pass without touching memory that others use.
//
//go:noinline
func linger() {
	for range lingering {
	}
}
