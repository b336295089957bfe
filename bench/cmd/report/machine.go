package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// header returns the first lines of each file of results, in benchmark format: what the
// output of go test itself does not say.
func header(ctx context.Context, e effort) string {
	return fmt.Sprintf("goversion: %s\ncores: %d\ncommit: %s\ndate: %s\ncommand: %s\neffort: %d rounds of %v, curves %d of %v\n",
		runtime.Version(), runtime.NumCPU(), commit(ctx), time.Now().UTC().Format("2006-01-02 15:04"), command(),
		e.rounds, e.benchtime, e.curveRounds, e.curveBenchtime)
}

// command returns the command that does what this process does.
func command() string {
	if len(os.Args) == 1 {
		return "make bench"
	}
	return "go run ./cmd/report " + strings.Join(os.Args[1:], " ")
}

// commit returns the commit of the working tree, and whether the library differs from it.
func commit(ctx context.Context) string {
	id, err := git(ctx, "rev-parse", "--short", "HEAD")
	if err != nil {
		return "unknown"
	}
	// What the report itself writes does not count.
	changed, err := git(ctx, "status", "--porcelain", "--", ":/*.go", ":/go.mod", ":(top,exclude)bench")
	if err != nil || changed != "" {
		id += "+changes"
	}
	return id
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out)), err
}
