package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	modpath "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"
)

// cloneOf makes a clone of the repository in a directory that does not exist yet, with its author.
func cloneOf(ctx context.Context, dir, clone string) (*repository, error) {
	args := []string{"clone", "--quiet"}
	for _, setting := range []string{"user.name", "user.email"} {
		value, err := git(ctx, dir, "config", "--get", setting)
		if err != nil {
			value = "release"
		}
		args = append(args, "--config", setting+"="+value)
	}
	if _, err := git(ctx, ".", append(args, dir, clone)...); err != nil {
		return nil, err
	}
	return openRepository(ctx, clone)
}

// rewrite makes the checkout that of a release: every module requires its siblings at the version, and no released
// module replaces one. It writes the modules' zip files into a directory.
func (r *repository) rewrite(ctx context.Context, version, archives string) error {
	for _, m := range slices.Concat(r.released, r.excluded) {
		if err := r.rewriteMod(m, version); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	for place, m := range r.released {
		if err := r.addSums(m, place, version, archives); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if err := r.archive(ctx, m, version, archives); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

// rewriteMod writes the module's go.mod.
func (r *repository) rewriteMod(m *module, version string) error {
	for _, q := range slices.Clone(m.file.Require) {
		if !r.isReleased(q.Mod.Path) {
			continue
		}
		if err := m.file.AddRequire(q.Mod.Path, version); err != nil {
			return err
		}
	}
	if r.isReleased(m.path) {
		for _, p := range slices.Clone(m.file.Replace) {
			if err := m.file.DropReplace(p.Old.Path, p.Old.Version); err != nil {
				return err
			}
		}
	}
	m.file.Cleanup()
	text, err := m.file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dirOf(m), "go.mod"), text, 0o644)
}

// addSums adds the sums of the siblings to the module's go.sum, so that a checkout of the tag builds. A module that
// comes later has no zip file yet: then it is only a test that needs it, and its go.mod is enough.
func (r *repository) addSums(m *module, place int, version, archives string) error {
	name := filepath.Join(r.dirOf(m), "go.sum")
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, q := range m.file.Require {
		at := r.place(q.Mod.Path)
		if at < 0 {
			continue
		}
		sibling := r.released[at]
		sum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
			return os.Open(filepath.Join(r.dirOf(sibling), "go.mod"))
		})
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "%s %s/go.mod %s\n", sibling.path, version, sum)
		if at < place {
			if sum, err = dirhash.HashZip(archiveName(sibling, archives), dirhash.Hash1); err != nil {
				return err
			}
			text = fmt.Appendf(text, "%s %s %s\n", sibling.path, version, sum)
		}
	}
	if len(text) == 0 {
		return nil
	}
	lines := slices.SortedFunc(bytes.Lines(text), bytes.Compare)
	return os.WriteFile(name, bytes.Join(lines, nil), 0o644)
}

func archiveName(m *module, archives string) string {
	return filepath.Join(archives, strings.ReplaceAll(m.path, "/", "_")+".zip")
}

// archive writes the zip file that module proxies will have of the module.
func (r *repository) archive(ctx context.Context, m *module, version, archives string) (err error) {
	if _, err := git(ctx, r.dir, "add", "--all"); err != nil {
		return err
	}
	tree, err := git(ctx, r.dir, "write-tree")
	if err != nil {
		return err
	}
	f, err := os.Create(archiveName(m, archives))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return modzip.CreateFromVCS(f, modpath.Version{Path: m.path, Version: version}, r.dir, tree, strings.TrimPrefix(m.dir, "."))
}

// mostOfFile is the size above which a file burdens each user of a library. A program's users want its files.
const mostOfFile = 1 << 20

// sizes prints the sizes of the zip files. It fails if a library has a file that is too large.
func (r *repository) sizes(out io.Writer, archives string) (err error) {
	for _, m := range r.released {
		z, e := zip.OpenReader(archiveName(m, archives))
		if e != nil {
			return e
		}
		size := uint64(0)
		for _, f := range z.File {
			size += f.CompressedSize64
			if f.UncompressedSize64 > mostOfFile && len(m.libraries) > 0 {
				err = errors.Join(err, fmt.Errorf("%s has %d bytes, want at most %d", f.Name, f.UncompressedSize64, mostOfFile))
			}
		}
		_, e = fmt.Fprintf(out, "%8d bytes  %s\n", size, m.path)
		err = errors.Join(err, e, z.Close())
	}
	return err
}

// commit makes the commit and the tags of the version.
func (r *repository) commit(ctx context.Context, version string) error {
	if _, err := git(ctx, r.dir, "commit", "--quiet", "--all", "--message", "Release "+version); err != nil {
		return err
	}
	for _, m := range r.released {
		if _, err := git(ctx, r.dir, "tag", "--annotate", "--message", m.path+" "+version, m.tag(version)); err != nil {
			return err
		}
	}
	return nil
}
