//go:build !linux

package throttle

import "time"

// alarm is what the copy sleeps by.
type alarm struct{ rung chan struct{} } // has room for one element

func newAlarm() (*alarm, error) { return &alarm{make(chan struct{}, 1)}, nil }

// ring ends the sleep that goes on, or the next one.
func (a *alarm) ring() {
	select {
	case a.rung <- struct{}{}:
	default:
	}
}

// sleep returns after d, or when the alarm rings.
func (a *alarm) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.rung:
	}
}
