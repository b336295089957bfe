// Command generate writes what a package of sluice has besides the program: man pages, and completions for shells.
//
//	generate DIR VERSION TIME
//
// TIME is the release's, in Unix seconds. It is a program of its own, as the library that writes man pages would make sluice
// larger.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/program"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: generate DIR VERSION TIME")
	}
	seconds, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(args[0], 0o750); err != nil {
		return err
	}
	if err := completions(program.New(), args[0]); err != nil {
		return err
	}
	return manPages(program.New(), args[0], args[1], time.Unix(seconds, 0).UTC())
}

// completions writes a file for each shell, with the name that the shell looks for.
func completions(root *cobra.Command, dir string) error {
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(dir, "sluice.bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "_sluice")),
		root.GenFishCompletionFile(filepath.Join(dir, "sluice.fish"), true),
	)
}
