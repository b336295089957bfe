//go:build !unix

package run

import "os"

var jobSignals []os.Signal

func jobsChange(os.Signal) (by int, ok bool) { return 0, false }

func (*runner) suspend(os.Signal) bool { return false }
