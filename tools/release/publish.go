package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// publish makes a release in a copy of dir, and a module proxy in a directory that has it. What the modules need of others is then
// in the module cache, so that they can be built without a network. The copy is below temp, and stays.
func publish(ctx context.Context, out io.Writer, dir, version, temp, proxy string) (*repository, error) {
	tree, archives := filepath.Join(temp, "tree"), filepath.Join(temp, "archives")
	for _, sub := range []string{tree, archives, proxy} {
		if err := os.MkdirAll(sub, 0o750); err != nil {
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
	for _, m := range r.released {
		if err := r.fetch(ctx, m, filepath.Join(temp, "fetch", m.dir)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// fetch fills the module cache with a module's dependencies and checks them against its go.sum. It downloads only missing ones.
func (r *repository) fetch(ctx context.Context, m *module, dir string) error {
	others, err := modfile.Parse(m.path, modfile.Format(m.file.Syntax), nil)
	if err != nil {
		return err
	}
	for _, q := range m.file.Require {
		if r.isReleased(q.Mod.Path) {
			if err := others.DropRequire(q.Mod.Path); err != nil {
				return err
			}
		}
	}
	others.Cleanup()
	text, err := others.Format()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	err = copyFile(filepath.Join(r.dirOf(m), "go.sum"), filepath.Join(dir, "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a module may need nothing
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o600); err != nil {
		return err
	}
	_, err = command(ctx, dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod"), "go", "mod", "download")
	return err
}
