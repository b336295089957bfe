// Results replaces rows of results.txt by the medians of a run of the benchmarks:
//
//	go run ./cmd/results FILE
//
// FILE is the output of several rounds of go test -bench. Rows of benchmarks that are not in it stay.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-go/sluice/internal/docs"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	const name = "results.txt"
	if len(args) != 1 {
		return errors.New("usage: results FILE")
	}
	old, err := os.Open(name)
	if err != nil {
		return err
	}
	results, err := docs.ReadResults(old)
	if err := errors.Join(err, old.Close()); err != nil {
		return err
	}
	measured, err := os.Open(args[0])
	if err != nil {
		return err
	}
	if err := errors.Join(results.Add(measured, time.Now()), measured.Close()); err != nil {
		return err
	}
	to, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(results.Write(to), to.Close())
}
