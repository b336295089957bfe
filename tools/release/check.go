package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// candidate is the version that check gives the release. It is after every other one of its major.
const candidate = "v0.999.0"

type checkOptions struct {
	dir    string
	out    io.Writer
	change func(r *repository, proxy string) error // breaks the release, for a test; nil: it stays whole
}

// check makes a release in a temporary copy, publishes it to a module proxy in a folder, and builds with it as users will:
// outside the repository, with an empty module cache, from that folder and what is downloaded already.
func check(ctx context.Context, o checkOptions) (err error) {
	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	here, err := openRepository(o.dir)
	if err != nil {
		return err
	}
	if err := here.tellChanges(ctx, o.out); err != nil {
		return err
	}
	proxy := filepath.Join(temp, "proxy")
	r, err := publish(ctx, o.out, o.dir, candidate, temp, proxy)
	if err != nil {
		return err
	}
	if o.change != nil {
		if err := o.change(r, proxy); err != nil {
			return err
		}
	}
	if err := r.verify(candidate); err != nil {
		return err
	}
	u, err := newUser(ctx, o.out, temp, proxy)
	if err != nil {
		return err
	}
	if err := u.tryAll(ctx, r); err != nil {
		return err
	}
	if err := u.tryREADME(ctx, r); err != nil {
		return err
	}
	return r.buildTags(ctx, u)
}

// tellChanges prints how the API differs from that of the latest release. It fails if every later release would break programs,
// as from v1 on.
func (r *repository) tellChanges(ctx context.Context, out io.Writer) error {
	tag, err := latest(ctx, r.dir, "v2.0.0")
	if err != nil || tag == "" {
		return err
	}
	breaking, others, err := r.compare(ctx, tag)
	if err != nil {
		return err
	}
	for _, line := range breaking {
		if _, err := fmt.Fprintln(out, "    breaks programs:", line); err != nil {
			return err
		}
	}
	if len(breaking) > 0 && semver.Major(tag) != "v0" {
		return fmt.Errorf("%d changes since %s break programs", len(breaking), tag)
	}
	_, err = fmt.Fprintf(out, "ok  the API since %s: %d changes that break programs, %d others\n", tag, len(breaking), len(others))
	return err
}

// copyFiles copies what git has or would have of dir.
func copyFiles(ctx context.Context, dir, to string) error {
	names, err := git(ctx, dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		err := copyFile(filepath.Join(dir, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) { // it may be deleted, and that not yet committed
			return err
		}
	}
	return nil
}

// buildTags builds each module as a checkout of its tag does, by its own go.sum.
func (r *repository) buildTags(ctx context.Context, u *user) error {
	for _, m := range r.released {
		if _, err := command(ctx, r.folder(m), append(u.env, "GOFLAGS=-mod=readonly -trimpath -modcacherw"), "go", "build", "./..."); err != nil {
			return fmt.Errorf("a checkout of %s: %w", m.tag(candidate), err)
		}
	}
	_, err := fmt.Fprintln(u.out, "ok  each module, in a checkout of its tag")
	return err
}
