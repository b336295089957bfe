//go:build unix

package throttle

import (
	"os"

	"golang.org/x/sys/unix"
)

// outputIsMissing reports whether this process was started without a standard output. Go's runtime has opened
// /dev/null in its place then, for reading and writing. A parent that discards the output mostly opens /dev/null for
// writing, or gives one open file for several of the standard files, as a daemon does. One that opens it for reading and
// writing, and for the output alone, looks the same as none: without an error, what is copied would be lost.
func outputIsMissing() bool {
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	info, err := os.Stdout.Stat()
	if err != nil || !os.SameFile(info, null) {
		return false
	}
	flags := flagsOf(unix.Stdout)
	return flags&unix.O_ACCMODE == unix.O_RDWR && !sharesStdout(unix.Stdin, flags) && !sharesStdout(unix.Stderr, flags)
}

// sharesStdout reports whether fd and standard output are one open file. Its flags are seen through both then; that of
// appending has no effect on /dev/null.
func sharesStdout(fd, flags int) bool {
	before := flagsOf(fd)
	setFlags(flags ^ unix.O_APPEND)
	defer setFlags(flags)
	return flagsOf(fd) != before
}

func setFlags(flags int) { _, _ = unix.FcntlInt(uintptr(unix.Stdout), unix.F_SETFL, flags) }

// flagsOf returns the flags of an open file, 0 if they are not known.
func flagsOf(fd int) int {
	flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return flags
}
