// Sluice limits from the command line: what goes through a pipe, how often commands start, what a server is asked for.
package main

import (
	"os"

	"github.com/sluice-go/sluice/cmd/sluice/internal/command"
)

func main() { os.Exit(command.Execute(os.Args[1:])) }
