package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// installMark stands in README.md above the commands that install what is published.
const installMark = "<!-- published-command -->"

// tryREADME runs the README's commands for what is published, to the letter.
func (u *user) tryREADME(ctx context.Context, r *repository) error {
	text, err := os.ReadFile(filepath.Join(r.dir, "README.md"))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), installMark)
	_, rest, _ = strings.Cut(rest, "```sh\n")
	commands, _, found := strings.Cut(rest, "\n```")
	if !found {
		return errors.New("README.md has no shell block below " + installMark)
	}
	dir, err := u.folder(nil)
	if err != nil {
		return err
	}
	if _, err := command(ctx, dir, u.env, "sh", "-eu", "-c", commands); err != nil {
		return fmt.Errorf("the README's commands for what is published: %w", err)
	}
	_, err = fmt.Fprintln(u.out, "ok  the README's commands for what is published")
	return err
}
