//go:build unix

package throttle

import (
	"os"

	"golang.org/x/sys/unix"
)

// isMissing reports whether this process was started without f, one of its standard files. Go's runtime has opened
// /dev/null in its place then, for reading and writing, as hardly anybody does who writes to it.
func isMissing(f *os.File) bool {
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, null) {
		return false
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}
