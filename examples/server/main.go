// Server is a small web site with limits on concurrent requests, on API requests per client,
// on failed logins, and on the bandwidth of downloads.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/httplimit"
)

const text = `server is a small web site under limits of package httplimit

usage: server [flags]

    go run ./examples/server             then follow its README with curl
    go run ./examples/server -selftest   plays the README's requests itself`

func main() { program.Main(text, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	addr := flags.String("addr", "127.0.0.1:8080", "address to listen on")
	trusted := flags.String("trusted", "", "proxies whose X-Forwarded-For is believed, as 10.0.0.0/8,fd00::/8")
	selftest := flags.Bool("selftest", false, "start on a free port, play some requests, and end")
	return func(ctx context.Context, args []string) error {
		if err := program.NoArguments(args); err != nil {
			return err
		}
		proxies, err := prefixes(*trusted)
		if err != nil {
			return program.Usage("-trusted: %w", err)
		}
		limits, err := newLimits(httplimit.IPOptions{Trusted: proxies}, slog.New(slog.NewTextHandler(s.Err, nil)))
		if err != nil {
			return err
		}
		if *selftest {
			*addr = "127.0.0.1:0"
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: newSite(limits), ReadHeaderTimeout: 10 * time.Second}
		if *selftest {
			return program.Serve(ctx, server, l, func(ctx context.Context) error {
				return play(ctx, "http://"+l.Addr().String(), s.Out)
			})
		}
		_, _ = fmt.Fprintf(s.Out, "http://%s/ until ctrl-C\n", l.Addr())
		return program.Serve(ctx, server, l, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	}
}

func prefixes(list string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
