//go:build !unix

package run

import "os"

var suspendSignals []os.Signal

func (*runner) suspend(os.Signal) bool { return false }
