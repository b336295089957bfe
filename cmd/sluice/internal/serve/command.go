// Package serve is a rate limit service for Envoy and its kin: package rlslimit behind a server of gRPC.
//
// # Inside
//
// server.go has the way from the start to the end, connections.go what is special about connections, metrics.go and
// admin.go what people and programs see of the rules.
package serve

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

const examples = `  sluice serve --config limits.yaml
  sluice serve --config /etc/sluice/limits/ --check
  sluice serve --config limits.yaml --redis redis://cache:6379/0 --listen :8081 --admin 127.0.0.1:9091
  curl http://127.0.0.1:9091/limits
  curl -X POST 'http://127.0.0.1:9091/limits/shop/remote_address/reset?key=192.0.2.1'`

const long = `Serve answers Envoy, and gateways that are made of it, whether a request may pass: it is
the service envoy.service.ratelimit.v3.RateLimitService over gRPC. It reads the files of
envoyproxy/ratelimit as they are, and takes its place.

  domain: shop
  descriptors:
    - key: remote_address
      rate_limit: {unit: minute, requests_per_unit: 100}
    - key: user
      limit: 10/min burst 3

A request is limited all or nothing: one that a descriptor rejects takes nothing from the
others. Limits are in memory, or, with --redis, shared by all servers; while Redis is
unreachable a request is answered within 10 ms, with yes, or with no if its domain has
fail-open: false.

Changed files take effect by themselves, or by SIGHUP, and nothing that is counted is lost.
If anything in them is wrong, all of that is reported, and nothing changes. SIGTERM ends the
server once the calls under way are answered. docs/serve.md explains the rest.`

// options are the flags.
type options struct {
	files         []string
	listen, admin string
	redis         string
	headers       bool
	merge, check  bool
	age, grace    cli.Duration
}

// New returns the command.
func New() *cobra.Command {
	o := options{listen: "127.0.0.1:8081", age: cli.Duration(30 * time.Minute), grace: cli.Duration(10 * time.Second)}
	c := &cobra.Command{
		Use:     "serve --config FILE-OR-DIR",
		Short:   "Answer Envoy's questions about rate limits",
		Long:    long,
		Example: examples,
		Args:    cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			switch err := cli.NotEmpty(c.Flags(), "listen", "admin", "redis"); {
			case err != nil:
				return err
			case len(o.files) == 0:
				return cli.Usage("no --config")
			}
			say := cli.NewPrinter(c.ErrOrStderr(), "serve").Say
			s, err := newServer(o, say)
			if err != nil {
				cli.SayAll(say, err)
				return cli.Exit(cli.Failure, nil)
			}
			defer s.close()
			if o.check {
				_, err := fmt.Fprintf(c.OutOrStdout(), "%s: ok\n", strings.Join(o.files, ", "))
				return err
			}
			return s.run(c.Context())
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringArrayVarP(&o.files, "config", "c", nil, "the rules are in `FILE-OR-DIR`, as YAML (may be given several times)")
	s.StringVar(&o.listen, "listen", o.listen, "take calls at `ADDR`")
	s.StringVar(&o.admin, "admin", "", "serve /metrics, /healthz and /limits at `ADDR`")
	s.StringVar(&o.redis, "redis", "", "share the limits through the server at `URL`: redis://HOST:PORT/DB")
	s.BoolVar(&o.headers, "headers", false, "have gateways add RateLimit-Limit, -Remaining and -Reset to answers")
	s.Var(&o.age, "max-connection-age", "end connections after this time, so that clients see new servers")
	s.Var(&o.grace, "grace", "how long calls under way may take at the end")
	s.BoolVar(&o.merge, "merge", false, "merge files of one domain, instead of rejecting them")
	s.BoolVar(&o.check, "check", false, "report what is wrong with the files, and serve nothing")
	_ = c.MarkFlagFilename("config", "yaml", "yml", "json")
	return c
}
