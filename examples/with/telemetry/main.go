// Telemetry is a small server with limits whose metrics Prometheus can scrape.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/examples/internal/program"
)

const text = `server is a server under limits that shows Prometheus what they do

usage: server [flags]

    go run ./telemetry          ten seconds of load that it makes itself, then the scrape
    go run ./telemetry -keep    serves /metrics until ctrl-C, under the same load

With -keep, let a Prometheus scrape it and import grafana/sluice.json into a Grafana.`

func main() { program.Main(text, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	addr := flags.String("addr", "127.0.0.1:0", "address to listen on; port 0: a free one")
	took := flags.Duration("took", 10*time.Second, "how long the load lasts")
	clients := flags.Int("clients", 8, "clients that make it")
	keep := flags.Bool("keep", false, "go on until ctrl-C")
	return func(ctx context.Context, args []string) error {
		if err := program.NoArguments(args); err != nil {
			return err
		}
		switch {
		case *took <= 0:
			return program.Usage("-took = %v, want more than 0", *took)
		case *clients < 1:
			return program.Usage("-clients = %d, want at least 1", *clients)
		}
		handler, stop, err := newSite()
		if err != nil {
			return err
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
		if err != nil {
			return errors.Join(err, stop(context.WithoutCancel(ctx)))
		}
		base := "http://" + l.Addr().String()
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		err = program.Serve(ctx, server, l, func(ctx context.Context) error {
			if *keep {
				_, _ = fmt.Fprintf(s.Out, "%s/metrics until ctrl-C\n", base)
				return load(ctx, base, *clients)
			}
			_, _ = fmt.Fprintf(s.Out, "%d clients for %v\n", *clients, *took)
			loaded, cancel := context.WithTimeout(ctx, *took)
			defer cancel()
			if err := load(loaded, base, *clients); err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			return scrape(ctx, base, s.Out)
		})
		return errors.Join(err, stop(context.WithoutCancel(ctx)))
	}
}
