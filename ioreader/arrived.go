package ioreader

// arrived are bytes that were read underneath and whose permits did not come before the
// call had to end, and the error that came with them.
type arrived struct {
	bytes []byte
	err   error // for the call that gets the last of the bytes
}

func (a *arrived) any() bool { return len(a.bytes) > 0 }

func (a *arrived) len() int { return len(a.bytes) }

// keep copies p, of which there is at least a byte.
func (a *arrived) keep(p []byte, err error) {
	a.bytes = append(a.bytes, p...)
	a.err = err
}

// take moves the oldest bytes to p, which is not longer than they are, and returns the error
// with the last.
func (a *arrived) take(p []byte) (int, error) {
	n := copy(p, a.bytes)
	a.bytes = a.bytes[n:]
	if len(a.bytes) > 0 {
		return n, nil
	}
	err := a.err
	*a = arrived{}
	return n, err
}
