package service

import (
	"os"
	"runtime"
)

// ballast is how much memory there is that is never touched, and so never really there. The collector runs when the heap has
// doubled, and a server such as the proxy holds next to nothing: without ballast it would run for every 4 MiB, which some 400
// requests take. With it a server uses up to this much more memory, however many connections it has.
const ballast = 32 << 20

// holdBallast makes the collector run less often until it is dropped, unless the user has set how often it runs.
func holdBallast() (drop func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	b := make([]byte, ballast)
	return func() { runtime.KeepAlive(b) }
}
