// Sluice limits from the command line: what goes through a pipe, how often commands start, what a server is asked for.
//
// # Inside
//
// internal/program has the commands, and internal/generate writes man pages and completions. The
// program must not import text/template or html/template: they call methods by name, so the linker
// would keep every method, 12 MB of them; gRPC does, unless it is built with -tags grpcnotrace, as
// releases are. Each command is a package whose comment says how it works.
// internal/proxy starts with the way of a request; its backends are package upstream. run's runner.go
// says what a run waits for. config reads the proxy's file, for the proxy and for simulate; route matches a request as its
// backend will read it, and says so if readings lead to different routes; shared has the limits of
// many machines on Redis.
package main

import (
	"os"
	_ "time/tzdata" // limits of the calendar name time zones

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/program"
)

func main() { os.Exit(cli.Execute(program.New(), os.Args[1:])) }
