package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// tag makes the commit of a release and its tags, in a worktree of its own, so that the branch keeps its replaces. With dry
// it shows them and makes none.
func tag(ctx context.Context, out io.Writer, dir, version string, dry bool) (err error) {
	here, err := openRepository(dir)
	if err != nil {
		return err
	}
	if err := here.ready(ctx, version); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	tree := filepath.Join(temp, "tree")
	if _, err := git(ctx, dir, "worktree", "add", "--quiet", "--detach", tree, "HEAD"); err != nil {
		return err
	}
	defer func() {
		_, e := git(context.WithoutCancel(ctx), dir, "worktree", "remove", "--force", tree)
		err = errors.Join(err, e)
	}()
	r, err := openRepository(tree)
	if err != nil {
		return err
	}
	if err := r.rewrite(version, temp); err != nil {
		return err
	}
	if err := r.verify(version); err != nil {
		return err
	}
	if dry {
		return r.show(ctx, out, version)
	}
	return r.commit(ctx, out, version)
}

// ready reports everything that is wrong with a release of the version.
func (r *repository) ready(ctx context.Context, version string) error {
	if err := validate(version); err != nil {
		return err
	}
	var all error
	problem := func(format string, args ...any) { all = errors.Join(all, fmt.Errorf(format, args...)) }
	if changed, err := git(ctx, r.dir, "status", "--porcelain"); err != nil {
		return err
	} else if changed != "" {
		problem("the checkout has changes:\n%s", changed)
	}
	if err := r.passed(ctx); err != nil {
		problem("%w", err)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte("\n## ["+strings.TrimPrefix(version, "v")+"]")) {
		problem("CHANGELOG.md has no ## [%s]", strings.TrimPrefix(version, "v"))
	}
	tags, err := git(ctx, r.dir, "tag", "--list")
	if err != nil {
		return err
	}
	for t := range strings.FieldsSeq(tags) {
		if v := t[strings.LastIndexByte(t, '/')+1:]; semver.IsValid(v) && semver.Compare(v, version) >= 0 {
			problem("%s is not after %s", version, t)
		}
	}
	return all
}

// validate reports an error unless a module whose path names no major version may have the version.
func validate(version string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version, want one like v0.1.0", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return fmt.Errorf("%s: from v2 on a module's path has its major version", version)
	}
	return nil
}

// passed reports an error unless the gate has passed on this tree.
func (r *repository) passed(ctx context.Context) error {
	tree, err := git(ctx, r.dir, "rev-parse", "HEAD^{tree}")
	if err != nil {
		return err
	}
	mark, err := git(ctx, r.dir, "rev-parse", "--git-path", "gate-passed")
	if err != nil {
		return err
	}
	if !filepath.IsAbs(mark) {
		mark = filepath.Join(r.dir, mark)
	}
	if text, err := os.ReadFile(mark); err != nil || strings.TrimSpace(string(text)) != tree {
		return errors.New("the gate has not passed on this commit: run make ci")
	}
	return nil
}

// show prints what would be committed and tagged.
func (r *repository) show(ctx context.Context, out io.Writer, version string) error {
	if _, err := git(ctx, r.dir, "add", "--all"); err != nil {
		return err
	}
	diff, err := git(ctx, r.dir, "diff", "--no-color", "--cached")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n\ntags: %s\n", diff, strings.Join(r.tags(version), " "))
	return err
}

// commit makes the commit and the tags, and prints how to push them.
func (r *repository) commit(ctx context.Context, out io.Writer, version string) error {
	if _, err := git(ctx, r.dir, "add", "--all"); err != nil {
		return err
	}
	if _, err := git(ctx, r.dir, "commit", "--quiet", "--message", "Release "+version); err != nil {
		return err
	}
	tags := r.tags(version)
	for i, t := range tags {
		if _, err := git(ctx, r.dir, "tag", "--annotate", "--message", r.released[i].path+" "+version, t); err != nil {
			_, undone := git(ctx, r.dir, append([]string{"tag", "--delete"}, tags[:i]...)...)
			return errors.Join(err, undone)
		}
	}
	_, err := fmt.Fprintf(out, "tagged; to publish:\n\n\tgit push origin %s\n", strings.Join(tags, " "))
	return err
}

// tags returns the names of the tags, in the order of the modules.
func (r *repository) tags(version string) []string {
	tags := make([]string, 0, len(r.released))
	for _, m := range r.released {
		tags = append(tags, m.tag(version))
	}
	return tags
}
