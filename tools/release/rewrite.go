package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/sumdb/dirhash"
)

// rewrite makes the checkout that of a release: every module requires its siblings at the version, and no released
// module replaces one. archives is a directory for the modules' zip files.
func (r *repository) rewrite(version, archives string) error {
	for _, m := range slices.Concat(r.released, r.excluded) {
		if err := r.rewriteMod(m, version); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	for place, m := range r.released {
		if err := r.addSums(m, place, version, archives); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if err := r.archive(m, version, r.archiveName(archives, m)); err != nil {
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
			if !r.own(p.Old.Path) {
				continue
			}
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
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	for _, q := range m.file.Require {
		at := r.place(q.Mod.Path)
		if at < 0 {
			continue
		}
		sibling := r.released[at]
		sum, err := r.sumOfMod(sibling)
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Appendf(nil, "%s %s/go.mod %s", sibling.path, version, sum))
		if at < place {
			if sum, err = dirhash.HashZip(r.archiveName(archives, sibling), dirhash.Hash1); err != nil {
				return err
			}
			lines = append(lines, fmt.Appendf(nil, "%s %s %s", sibling.path, version, sum))
		}
	}
	slices.SortFunc(lines, bytes.Compare)
	lines = slices.CompactFunc(lines, bytes.Equal) // a checkout of the tag has them already
	lines = slices.DeleteFunc(lines, func(l []byte) bool { return len(l) == 0 })
	if len(lines) == 0 {
		return nil
	}
	return os.WriteFile(name, append(bytes.Join(lines, []byte("\n")), '\n'), 0o644)
}

// sumOfMod returns the sum of the module's go.mod.
func (r *repository) sumOfMod(m *module) (string, error) {
	return dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(r.dirOf(m), "go.mod"))
	})
}

// verify reports what a user of the version could not build with.
func (r *repository) verify(version string) error {
	var all error
	for _, m := range r.released {
		text, err := os.ReadFile(filepath.Join(r.dirOf(m), "go.mod"))
		if err != nil {
			return err
		}
		file, err := modfile.Parse(m.path, text, nil)
		if err != nil {
			return err
		}
		for _, q := range file.Require {
			switch {
			case !r.own(q.Mod.Path):
			case !r.isReleased(q.Mod.Path):
				all = errors.Join(all, fmt.Errorf("%s requires %s, which is not released", m.path, q.Mod.Path))
			case q.Mod.Version != version:
				all = errors.Join(all, fmt.Errorf("%s requires %s at %s, want %s", m.path, q.Mod.Path, q.Mod.Version, version))
			}
		}
		for _, p := range file.Replace {
			all = errors.Join(all, fmt.Errorf("%s replaces %s, which users' builds ignore and go install refuses", m.path, p.Old.Path))
		}
	}
	return all
}
