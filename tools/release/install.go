package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// installPage has the commands that install a published version, below installMark.
const installPage = "docs/install.md"

// installMark marks them.
const installMark = "<!-- published-command -->"

// tryInstall runs the commands that install a published version, to the letter.
func (u *user) tryInstall(ctx context.Context, r *repository) error {
	text, err := os.ReadFile(filepath.Join(r.dir, filepath.FromSlash(installPage)))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), installMark)
	_, rest, _ = strings.Cut(rest, "```sh\n")
	commands, _, found := strings.Cut(rest, "\n```")
	if !found {
		return errors.New(installPage + " has no shell block below " + installMark)
	}
	dir, err := u.newDir(nil)
	if err != nil {
		return err
	}
	if _, err := command(ctx, dir, u.env, "sh", "-eu", "-c", commands); err != nil {
		return fmt.Errorf("the commands of docs/install.md: %w", err)
	}
	_, err = fmt.Fprintln(u.out, "ok  the commands of docs/install.md")
	return err
}
