//go:build unix

package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// CheckStdout returns an error if the process was started without stdout: what is written would be lost without an error.
// hint says what to do.
//
// Go's runtime then opens /dev/null for reading and writing. So does a program that starts this one without any output, such as
// Node with stdio: 'ignore', but it does so for stderr too; and Python opens it once for all subprocess.DEVNULL. For stdout alone,
// they cannot be told from a closed stdout and are rejected too.
func CheckStdout(hint string) error {
	if _, err := os.Stdout.Stat(); err == nil && (!isNull(os.Stdout) || isNull(os.Stderr) || sharesNull(os.Stdin)) {
		return nil
	}
	return errors.New("stdout is closed; " + hint)
}

// sharesNull reports whether f is the same open /dev/null as stdout.
func sharesNull(f *os.File) bool { return isNull(f) && sharesFile(f.Fd(), os.Stdout.Fd()) }

// isNull reports whether f is /dev/null, open for reading and writing. It does not change f.
func isNull(f *os.File) bool {
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
