// Package serve is a rate limit service for Envoy and compatible gateways: package rlslimit behind a gRPC server.
//
// # Inside
//
// server.go has the service from start to shutdown, and metrics.go and admin.go what operators see of the rules.
package serve

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
)

const examples = `  sluice serve --config limits.yaml
  sluice serve --config /etc/sluice/limits/ --check
  sluice serve --config limits.yaml --redis redis://cache:6379/0 --listen :8081 --admin 127.0.0.1:9091
  curl http://127.0.0.1:9091/limits
  curl -X POST 'http://127.0.0.1:9091/limits/shop/remote_address/reset?key=192.0.2.1'`

const long = `Serve tells Envoy, and gateways built on Envoy, whether a request may pass. It is the gRPC
service envoy.service.ratelimit.v3.RateLimitService. It reads the configuration files of
envoyproxy/ratelimit unchanged, so it can replace that service.

  domain: shop
  descriptors:
    - key: remote_address
      rate_limit: {unit: minute, requests_per_unit: 100}
    - key: user
      limit: 10/min burst 3, fixed 1000/day tz UTC

A limit may be several, separated by commas, which all apply. A request is decided as a
whole: if one descriptor or limit rejects it, it takes no permits from the others. A
descriptor that matches no rule passes; it is counted in sluice_rls_unmatched_total and
logged once in a while. Limits are kept in memory or, with --redis, shared by all servers.
While Redis is unreachable, every request is answered within about 10 ms: it passes, or is
rejected if its domain has fail-open: false. The commands below that use curl need --admin.

Serve reloads the files when they change, and on SIGHUP, without losing what is counted. If
they have errors, it reports all of them and keeps the previous configuration. With
--tls-cert and --tls-key it serves TLS, and reads both files again then. With --check it
checks the files, reports all errors and exits. On SIGTERM it finishes in-flight calls and
exits. See docs/serve.md for the details.`

// options are the flags.
type options struct {
	files         []string
	listen, admin string
	redis         string
	cert, key     string // files; "": no TLS
	headers       bool
	merge, check  bool
	age, grace    cli.Duration
}

// New returns the command.
func New() *cobra.Command {
	o := options{listen: "127.0.0.1:8081", age: cli.Duration(30 * time.Minute), grace: cli.Duration(10 * time.Second)}
	c := &cobra.Command{
		Use:     "serve --config FILE-OR-DIR",
		Short:   "Run an Envoy rate limit service",
		Long:    long,
		Example: examples,
		Args:    cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(o.files) == 0 || slices.Contains(o.files, "") {
				return cli.Usage("--config is required")
			}
			if (o.cert == "") != (o.key == "") {
				return cli.Usage("--tls-cert and --tls-key require each other")
			}
			for _, name := range o.files {
				f, err := os.Open(name) // otherwise the error does not name the flag
				if err != nil {
					return fmt.Errorf("--config: %w", err)
				}
				_ = f.Close()
			}
			messages := service.NewMessages(c.ErrOrStderr())
			defer messages.Close()
			out := cli.NewPrinter(messages, "serve")
			say := out.Say
			out.SetTimes(!o.check && os.Getenv("JOURNAL_STREAM") == "") // the journal has times of its own
			s, err := newServer(o, say)
			if err != nil {
				out.SetTimes(false)
				cli.SayAll(say, err)
				return cli.Exit(cli.Failure, nil)
			}
			defer s.close()
			if o.check {
				s.warnUnlimited()
				_, err := fmt.Fprintf(c.OutOrStdout(), "%s: ok\n", strings.Join(o.files, ", "))
				return err
			}
			return s.run(c.Context())
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringArrayVarP(&o.files, "config", "c", nil, "read the rules from `FILE-OR-DIR`, in YAML; required, and may be repeated")
	s.StringVar(&o.listen, "listen", o.listen, "listen for gRPC calls on `ADDR`")
	s.StringVar(&o.admin, "admin", "", "serve /metrics, /healthz and /limits by HTTP on `ADDR` (default: not at all)")
	s.StringVar(&o.redis, "redis", "", "share the limits through the Redis server at `URL`: redis://HOST:PORT/DB (default: in memory)")
	s.StringVar(&o.cert, "tls-cert", "", "serve TLS with the certificate in `FILE`; read again at each reload")
	s.StringVar(&o.key, "tls-key", "", "use the private key in `FILE`")
	s.BoolVar(&o.headers, "headers", false, "have gateways add RateLimit-Limit, -Remaining and -Reset to responses")
	s.Var(&o.age, "max-connection-age", "close connections after `TIME`, so that clients find new servers; 0 means never")
	s.Var(&o.grace, "grace", "on shutdown, wait up to `TIME` for in-flight calls: 250ms, 1h30m, or a number of seconds")
	s.BoolVar(&o.merge, "merge", false, "merge files of one domain instead of rejecting them")
	s.BoolVar(&o.check, "check", false, "check the files, report all errors and exit")
	_ = c.MarkFlagFilename("config", "yaml", "yml", "json")
	return c
}
