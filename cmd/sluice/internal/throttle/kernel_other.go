//go:build !linux

package throttle

import "os"

// newMover returns the best way from src to dst.
func newMover(dst, src *os.File) mover { return newThrough(dst, src) }
