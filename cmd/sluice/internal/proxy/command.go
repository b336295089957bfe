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
  curl -X POST 'http://127.0.0.1:9090/limits/api/reset?key=192.0.2.1'`

const long = `Proxy is a reverse proxy for HTTP/1.1, HTTP/2 and WebSocket. It limits the requests that
reach the servers behind it: their rate, their bytes, and how many are in flight, in total
or per client.

  listen: ":8080"
  to: http://127.0.0.1:9000
  admin: 127.0.0.1:9090
  global: {limit: concurrency 500 queue 200 newest-first, status: 503, max-wait: 2s}
  policies:
    api: {key: ip, limit: 100/s burst 200}
  routes:
    "/api/": api
    "/": []

The proxy reloads FILE when it changes, or on SIGHUP, without dropping connections. If the
new file has errors, all of them are reported and the old configuration stays in effect.
On SIGTERM the proxy finishes in-flight requests and exits.

A policy can charge a request more than one permit (cost), read its actual cost from the
response (settle: X-Cost), only report what it would reject (shadow: true), have other
limits for some keys (overrides), and a key of several parts: [header:X-Api-Key, path:1].

A limit with a queue needs max-wait. A request whose path a backend could interpret as that
of another route gets 400. Other settings: tls, trusted, headers, problems, host, keys, max-body,
connections, connections-per-ip, access-log, underscores, backend-timeout, redis,
redis-timeout; sluice-proxy.yaml(5) and docs/proxy.md explain them. The URLs of gRPC
backends are h2c://HOST:PORT or h2://HOST:PORT.`

// New returns the command.
func New() *cobra.Command {
	var file string
	var check bool
	grace := cli.Duration(30 * time.Second)
	c := &cobra.Command{
		Use:     "proxy --config FILE",
		Short:   "Limit the requests to an HTTP server",
		Long:    long,
		Example: examples,
		Args:    cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return cli.Usage("--config is required")
			}
			messages := service.NewMessages(c.ErrOrStderr())
			defer messages.Close()
			out := cli.NewPrinter(messages, "proxy")
			say := out.Say
			out.SetTimes(!check && os.Getenv("JOURNAL_STREAM") == "") // the journal has times of its own
			p, err := server.New(file, say)
			if err != nil {
				out.SetTimes(false)
				cli.SayAll(say, err)
				return cli.Exit(cli.Failure, nil)
			}
			if check {
				p.WarnUnlimited()
				p.Close()
				_, err := fmt.Fprintf(c.OutOrStdout(), "%s: ok\n", file)
				return err
			}
			return p.Run(c.Context(), time.Duration(grace))
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVarP(&file, "config", "c", "", "read the configuration from `FILE`, in YAML; required")
	s.BoolVar(&check, "check", false, "check FILE, report all errors and exit")
	s.Var(&grace, "grace", "on shutdown, wait up to `TIME` for in-flight requests: 250ms, 1h30m, or a number of seconds")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	return c
}
