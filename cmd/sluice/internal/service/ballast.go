package service

import (
	"os"
	"runtime"
)

// ballast is the size of an allocation that is never touched, so it takes no physical memory. The garbage collector runs when the
// heap has doubled, and the heap of a server such as the proxy is tiny: without ballast the collector would run for every 4 MiB,
// which about 400 requests allocate. With ballast a server uses up to this much more memory, however many connections it has.
const ballast = 32 << 20

// holdBallast makes the collector run less often until drop is called, unless the user has set how often it runs.
func holdBallast() (drop func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	b := make([]byte, ballast)
	return func() { runtime.KeepAlive(b) }
}
