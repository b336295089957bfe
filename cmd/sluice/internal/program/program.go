// Package program is sluice with all its commands.
package program

import (
	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/playground"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy"
	"github.com/sluice-go/sluice/cmd/sluice/internal/run"
	"github.com/sluice-go/sluice/cmd/sluice/internal/serve"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
	"github.com/sluice-go/sluice/cmd/sluice/internal/throttle"
	"github.com/sluice-go/sluice/cmd/sluice/internal/wait"
)

// New returns the program as a command.
func New() *cobra.Command {
	return cli.New(playground.New(), proxy.New(), run.New(), serve.New(), simulate.New(), throttle.New(), wait.New())
}
