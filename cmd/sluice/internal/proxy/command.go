// Package proxy is the command of a proxy: its flags, in front of package server.
package proxy

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/server"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
)

const examples = `  sluice proxy --config limits.yaml
  sluice proxy --config limits.yaml --check
  curl -X PUT -d '{"limit": "50/s"}' http://127.0.0.1:9090/limits/api
  curl -X POST http://127.0.0.1:9090/limits/api/reset?key=192.0.2.1`

const long = `Proxy is a reverse proxy for HTTP/1.1, HTTP/2 and WebSockets that limits what reaches
the servers behind it: requests, bytes, and how many at once, for all or for each
client.

  listen: ":8080"
  to: http://127.0.0.1:9000
  admin: 127.0.0.1:9090
  global: {limit: concurrency 500 queue 200 newest-first, status: 503, max-wait: 2s}
  policies:
    api: {key: ip, limit: 100/s burst 200}
  routes:
    "/api/": api
    "/": []

A changed file takes effect by itself, or by SIGHUP; nobody is disconnected. If
anything in it is wrong, all of that is reported, and nothing changes. SIGTERM ends
the proxy once the requests under way are done.

A policy may let a request cost more than one permit (cost), learn from the answer
what it has cost (settle: X-Cost), watch and reject nobody (shadow: true), have other
limits for some keys (overrides), and a key of several parts: [header:X-Api-Key, path:1].

A limit with a queue needs max-wait. A path that the backend may read as one of
another route gets 400. More keys: tls, trusted, headers, problems, host: keep,
keys, max-body, connections, connections-per-ip, access-log, underscores,
backend-timeout, redis, redis-budget; sluice-proxy.yaml(5) and docs/proxy.md explain
them. Backends of gRPC are h2c://HOST:PORT or h2://HOST:PORT.`

// New returns the command.
func New() *cobra.Command {
	var file string
	var check bool
	grace := cli.Duration(30 * time.Second)
	c := &cobra.Command{
		Use:     "proxy --config FILE",
		Short:   "Put limits before a server",
		Long:    long,
		Example: examples,
		Args:    cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return cli.Usage("no --config")
			}
			messages := service.NewMessages(c.ErrOrStderr())
			defer messages.Close()
			out := cli.NewPrinter(messages, "proxy")
			say := out.Say
			p, err := server.New(file, say)
			if err != nil {
				cli.SayAll(say, err)
				return cli.Exit(cli.Failure, nil)
			}
			if check {
				p.Close()
				_, err := fmt.Fprintf(c.OutOrStdout(), "%s: ok\n", file)
				return err
			}
			return p.Run(c.Context(), time.Duration(grace), func() {
				out.SetTimes(os.Getenv("JOURNAL_STREAM") == "") // the journal has times of its own
			})
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVarP(&file, "config", "c", "", "the limits are in `FILE`, as YAML")
	s.BoolVar(&check, "check", false, "report what is wrong with the file, and serve nothing")
	s.Var(&grace, "grace", "how long requests under way may take at the end")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	return c
}
