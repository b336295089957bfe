package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// publish makes a release in a copy of dir, and a module proxy in a folder that has it. The copy is below temp, and stays.
func publish(ctx context.Context, out io.Writer, dir, version, temp, proxy string) (*repository, error) {
	tree, archives := filepath.Join(temp, "tree"), filepath.Join(temp, "archives")
	for _, folder := range []string{tree, archives, proxy} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return nil, err
		}
	}
	if err := copyFiles(ctx, dir, tree); err != nil {
		return nil, err
	}
	r, err := openRepository(tree)
	if err != nil {
		return nil, err
	}
	if err := r.rewrite(version, archives); err != nil {
		return nil, err
	}
	if err := r.write(version, archives, proxy, out); err != nil {
		return nil, err
	}
	return r, nil
}

// publishTo makes a module proxy in a folder that has dir as the version. Where the version has a tag, dir must be a
// checkout of it.
func publishTo(ctx context.Context, out io.Writer, dir, version, proxy string) (err error) {
	if err := validate(version); err != nil {
		return err
	}
	if err := isTagged(ctx, dir, version); err != nil {
		return err
	}
	if proxy, err = filepath.Abs(proxy); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	r, err := publish(ctx, out, dir, version, temp, proxy)
	if err != nil {
		return err
	}
	return r.verify(version)
}

// isTagged reports an error if there is a tag of that name, and dir is no checkout of it.
func isTagged(ctx context.Context, dir, tag string) error {
	if found, err := git(ctx, dir, "tag", "--list", tag); err != nil || found == "" {
		return err
	}
	changed, err := git(ctx, dir, "diff", "--stat", tag)
	if err == nil && changed != "" {
		err = fmt.Errorf("there is a tag %s, and this is not it: git switch --detach %s", tag, tag)
	}
	return err
}
