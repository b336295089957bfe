//go:build !unix

package cli

import (
	"errors"
	"os"
)

// CheckStdout returns an error if the process was started without stdout. hint says what to do.
func CheckStdout(hint string) error {
	if _, err := os.Stdout.Stat(); err != nil {
		return errors.New("stdout is closed; " + hint)
	}
	return nil
}
