//go:build !unix

package cli

import "os"

// UserSignal1 is nil: there is no such signal here.
var UserSignal1 os.Signal

// UserSignal2 is nil: there is no such signal here.
var UserSignal2 os.Signal
