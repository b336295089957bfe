package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// git runs git in dir and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	return command(ctx, dir, gitEnv(), "git", args...)
}

// gitEnv returns the environment without the repository that git names to its hooks, which need not be that of dir.
func gitEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"}, name)
	})
}

// command runs a program in dir, with an environment if env is not nil, and returns its stdout. Its error says what
// the program wrote.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, time.Second
	var out, both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &both
	if err := cmd.Run(); err != nil {
		both.Write(out.Bytes())
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(both.Bytes()))
	}
	return strings.TrimSpace(out.String()), nil
}
