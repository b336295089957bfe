// Package grpc compares interceptors that limit the calls of a gRPC server.
package grpc

import (
	"testing"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

// The rivals start goroutines that nothing ends, so leaks are not looked for.
func TestMain(m *testing.M) {
	sidebyside.RunByDefault()
	m.Run()
}
