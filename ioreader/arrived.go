package ioreader

// arrived holds bytes that were read from the underlying reader and got no permits before the call
// had to end, and the error that the Read returned with them.
type arrived struct {
	bytes []byte
	err   error // returned with the last of the bytes
}

func (a *arrived) len() int { return len(a.bytes) }

// keep appends a copy of p, which is not empty.
func (a *arrived) keep(p []byte, err error) {
	a.bytes = append(a.bytes, p...)
	a.err = err
}

// take moves the oldest bytes to p, which must not be longer than they are. It returns the error
// with the last of them.
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
