package proxy

import (
	"os"
	"runtime"
)

// ballastBytes is memory that is never touched, and so never really there. The collector runs when the heap has doubled,
// and a proxy holds next to nothing: without ballast it would run for every 4 MiB, which some 400 requests take. With it
// a proxy uses up to this much more memory, however many connections it has.
const ballastBytes = 32 << 20

// ballast makes the collector run less often until it is dropped, unless somebody has said how often it shall run.
func ballast() (drop func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	b := make([]byte, ballastBytes)
	return func() { runtime.KeepAlive(b) }
}
