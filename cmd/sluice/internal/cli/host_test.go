package cli_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

func TestIsLocalHost(t *testing.T) {
	for _, host := range []string{"localhost", "localhost:80", "LOCALHOST.", "127.0.0.1", "127.0.0.1:80", "192.0.2.1", "[::1]", "[::1]:80"} {
		assert.True(t, cli.IsLocalHost(host), host)
	}
	for _, host := range []string{"", "example.com", "localhost.example.com", "127.0.0.1.example.com", "::1", "a b", "localhost:x", "[::1"} {
		assert.False(t, cli.IsLocalHost(host), host)
	}
}
