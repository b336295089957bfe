// Command dist makes what people install without Go, of a version that a module proxy has:
//
//	dist [-proxy FOLDER] [-only OS/ARCH] VERSION FOLDER
//
// The folder is made, or is empty. With -proxy nothing is downloaded: what the program needs must be in the module cache.
//
// For each system it makes an archive, for Linux a .deb and an .rpm too, for each archive a bill of materials, and for all of
// them SHA256SUMS. What it makes depends on the version, the version of Go and SOURCE_DATE_EPOCH alone, to the byte.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: dist [-proxy FOLDER] [-only OS/ARCH] VERSION FOLDER, with SOURCE_DATE_EPOCH")

// sluice is the module of the program.
const sluice = "github.com/sluice-go/sluice/cmd/sluice"

func run(ctx context.Context, args []string, epoch string, out io.Writer) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	proxy := flags.String("proxy", "", "a module proxy in a folder, for what is not published")
	only := flags.String("only", "", "one system, such as linux/amd64")
	if flags.Parse(args) != nil || flags.NArg() != 2 {
		return errUsage
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return errUsage
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	r := &release{
		module: sluice, version: flags.Arg(0), at: time.Unix(seconds, 0).UTC(),
		proxy: *proxy, dir: flags.Arg(1), out: out, most: 25_000_000,
	}
	return r.make(ctx, chosen)
}

// system is what a program is built for.
type system struct{ os, arch string }

var systems = []system{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

// choose returns the systems: all, or the one that is named.
func choose(only string) ([]system, error) {
	if only == "" {
		return systems, nil
	}
	var names []string
	for _, s := range systems {
		name := s.os + "/" + s.arch
		if name == only {
			return []system{s}, nil
		}
		names = append(names, name)
	}
	return nil, fmt.Errorf("-only %s: want one of %s", only, strings.Join(names, ", "))
}
