package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// candidate is the version that check gives the release. It is after every other one of its major.
const candidate = "v0.999.0"

type checkOptions struct {
	dir    string
	out    io.Writer
	change func(r *repository, proxy string) error // breaks the release, for a test; nil: it stays whole
}

// check makes a release in a temporary copy, publishes it to a module proxy in a directory, and builds with it as users will:
// outside the repository, with an empty module cache, from that directory and the modules downloaded before.
func check(ctx context.Context, o checkOptions) (err error) {
	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
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
	if err := u.tryInstall(ctx, r); err != nil {
		return err
	}
	return r.buildTags(ctx, u)
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
		if _, err := command(ctx, r.dirOf(m), append(u.env, "GOFLAGS=-mod=readonly -trimpath -modcacherw"), "go", "build", "./..."); err != nil {
			return fmt.Errorf("a checkout of %s: %w", m.tag(candidate), err)
		}
	}
	_, err := fmt.Fprintln(u.out, "ok  each module, in a checkout of its tag")
	return err
}
