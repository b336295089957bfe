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

// tag makes the commit of a release and its tags in a clone, so that the branch keeps its replaces, and fetches the tags
// from there. With dry it shows them and makes none.
func tag(ctx context.Context, out io.Writer, dir, version string, dry bool) (err error) {
	if err := ready(ctx, dir, version); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	clone := filepath.Join(temp, "clone")
	r, err := cloneOf(ctx, dir, clone)
	if err != nil {
		return err
	}
	if err := r.rewrite(ctx, version, temp); err != nil {
		return err
	}
	var tags, refs []string
	for _, m := range r.released {
		tags = append(tags, m.tag(version))
		refs = append(refs, "refs/tags/"+m.tag(version)+":refs/tags/"+m.tag(version))
	}
	if dry {
		diff, err := git(ctx, clone, "diff", "--no-color", "--cached")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s\n\ntags: %s\n", diff, strings.Join(tags, " "))
		return err
	}
	if err := r.commit(ctx, version); err != nil {
		return err
	}
	if _, err := git(ctx, dir, append([]string{"fetch", "--quiet", "--atomic", "--no-tags", clone}, refs...)...); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "tagged; to publish:\n\n\tgit push origin %s\n", strings.Join(tags, " "))
	return err
}

// ready reports everything that is wrong with a release of the version.
func ready(ctx context.Context, dir, version string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version, want one like v0.1.0", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return fmt.Errorf("%s: from v2 on a module's path has its major version", version)
	}
	_, all := openRepository(ctx, dir)
	problem := func(format string, args ...any) { all = errors.Join(all, fmt.Errorf(format, args...)) }
	changed, err := git(ctx, dir, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		problem("the checkout has changes:\n%s", changed)
	}
	tree, err := git(ctx, dir, "rev-parse", "HEAD^{tree}")
	if err != nil {
		return err
	}
	mark, err := git(ctx, dir, "rev-parse", "--path-format=absolute", "--git-path", "gate-passed")
	if err != nil {
		return err
	}
	if text, err := os.ReadFile(mark); err != nil || strings.TrimSpace(string(text)) != tree {
		problem("the gate has not passed on this commit: run make ci")
	}
	changes, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if heading := "## [" + strings.TrimPrefix(version, "v") + "]"; !bytes.Contains(changes, []byte("\n"+heading)) {
		problem("CHANGELOG.md has no %s", heading)
	}
	tags, err := git(ctx, dir, "tag", "--list")
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
