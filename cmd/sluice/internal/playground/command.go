// Package playground is the command sluice playground: a page on which limits are tried in the browser.
//
// The directory site is the page. It calls the server, which plays with the package play.
package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pkg/browser"
	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// usual is the default address. It is the same for all users, so that links work for others.
const usual = "127.0.0.1:7583"

const examples = `  sluice playground
  sluice playground access.log
  sluice playground --listen 127.0.0.1:8000 --no-browser`

// New returns the command.
func New() *cobra.Command {
	var listen string
	var quiet bool
	c := &cobra.Command{
		Use:   "playground [flags] [LOG]",
		Short: "Try limits in the browser",
		Long: `Playground serves a page on which you try up to four limits side by side. It prints the
URL, and opens it in the browser if stdout is a terminal. Ctrl-C ends it.

Requests are synthetic, or those of an access log: LOG, or one that you drop on the page
or paste into it, in any format of sluice simulate. The server plays them with the engine
of simulate, and makes the same decisions. The URL of the page contains what you
entered, except files and long pasted logs, so that you can share it with others who run a
playground.

Open the page by IP address or as localhost. The server rejects any other host name.`,
		Example: examples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage("unexpected argument %q", args[1])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			log := ""
			if len(args) > 0 {
				log = args[0]
			}
			visit := func(string) {}
			if !quiet && cli.IsTerminal(os.Stdout) {
				visit = openBrowser
			}
			free := ""
			if !c.Flags().Changed("listen") {
				free = "127.0.0.1:0" // another playground may run
			}
			return run(c.Context(), listen, free, log, c.OutOrStdout(), visit)
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&listen, "listen", usual, "listen on `ADDR`; port 0 is any free port, which is also used if the default is taken")
	s.BoolVar(&quiet, "no-browser", false, "print the URL without opening it")
	return c
}

// openBrowser opens a page if the system has a browser. It does not wait for the browser, because that may run for long.
func openBrowser(page string) {
	browser.Stdout, browser.Stderr = io.Discard, io.Discard
	go func() { _ = browser.OpenURL(page) }()
}

// run serves on listen, or on free if that is taken and free is not "", until ctx is done or a signal comes.
func run(ctx context.Context, listen, free, log string, out io.Writer, visit func(page string)) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if log != "" {
		f, err := os.Open(log) // report an error now
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	l, err := cli.Listen(ctx, "--listen", listen)
	if err != nil && free != "" {
		l, err = cli.Listen(ctx, "--listen", free)
	}
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(log), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	page := pageOf(l.Addr().(*net.TCPAddr), log)
	if _, err = fmt.Fprintln(out, page); err == nil {
		visit(page)
		select {
		case err = <-served:
			return err
		case <-ctx.Done():
		}
	}
	_ = server.Close()
	if closed := <-served; !errors.Is(closed, http.ErrServerClosed) {
		return closed
	}
	return err
}

// pageOf returns the URL of the page, which offers the log.
func pageOf(at *net.TCPAddr, log string) string {
	if at.IP.IsUnspecified() {
		at = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at.Port}
	}
	page := url.URL{Scheme: "http", Host: at.String(), Path: "/"}
	if log == "" {
		return page.String()
	}
	return page.String() + "#" + url.Values{"served": {"1"}, "log": {filepath.Base(log)}}.Encode()
}
