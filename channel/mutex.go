package channel

import "sync"

// mutex is a sync.Mutex for critical sections that are far shorter than it takes to park
// a goroutine and wake it. Who finds it locked leaves it alone for a microsecond or two,
// as long as some dozens of sections take, tries again, and parks only after that.
type mutex struct{ sync.Mutex }

// Lock locks m.
func (m *mutex) Lock() {
	if !m.TryLock() {
		m.lockSlow()
	}
}

func (m *mutex) lockSlow() {
	for range lockTries {
		linger()
		if m.TryLock() {
			return
		}
	}
	m.Mutex.Lock()
}

const (
	lockTries = 8
	lingering = 4096
)

// linger lets time pass without touching memory that others use.
//
//go:noinline
func linger() {
	for range lingering {
	}
}
