package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"
)

// repository is a checkout, with all of its modules.
type repository struct {
	dir      string
	released []*module // in the order of modules.yaml
	excluded []*module
}

// module is a directory with a go.mod.
type module struct {
	path string
	dir  string // relative to the repository's, with slashes; "." for the root
	file *modfile.File
}

// modulesFile lists the modules of a repository.
const modulesFile = "tools/release/modules.yaml"

// openRepository reads modules.yaml and each go.mod. It fails unless modules.yaml lists each module once.
func openRepository(dir string) (*repository, error) {
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(modulesFile)))
	if err != nil {
		return nil, err
	}
	var versions struct {
		Modules  []string          `yaml:"modules"`
		Excluded map[string]string `yaml:"excluded"`
	}
	if err := yaml.Unmarshal(text, &versions); err != nil {
		return nil, fmt.Errorf("%s: %w", modulesFile, err)
	}
	found, err := modulesIn(dir)
	if err != nil {
		return nil, err
	}
	r := &repository{dir: dir}
	for _, p := range versions.Modules {
		if found[p] == nil {
			err = errors.Join(err, fmt.Errorf("%s: module %s is listed twice, or is not in the repository", modulesFile, p))
			continue
		}
		r.released = append(r.released, found[p])
		delete(found, p)
	}
	for p, reason := range versions.Excluded {
		switch {
		case found[p] == nil:
			err = errors.Join(err, fmt.Errorf("%s: excluded module %s is not in the repository, or is released", modulesFile, p))
			continue
		case reason == "":
			err = errors.Join(err, fmt.Errorf("%s: excluded module %s has no reason", modulesFile, p))
		}
		r.excluded = append(r.excluded, found[p])
		delete(found, p)
	}
	for p := range found {
		err = errors.Join(err, fmt.Errorf("%s does not name %s", modulesFile, p))
	}
	return r, err
}

// modulesIn finds the modules by their paths.
func modulesIn(dir string) (map[string]*module, error) {
	found := make(map[string]*module)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Name() != "go.mod":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, filepath.Dir(name))
		if err != nil {
			return err
		}
		found[file.Module.Mod.Path] = &module{path: file.Module.Mod.Path, dir: filepath.ToSlash(rel), file: file}
		return nil
	})
	return found, err
}

// isReleased reports whether the path is a released module's.
func (r *repository) isReleased(path string) bool { return r.place(path) >= 0 }

// place returns where in the order of releases the module is, -1 if it is not released.
func (r *repository) place(path string) int {
	return slices.IndexFunc(r.released, func(m *module) bool { return m.path == path })
}

// own reports whether the path is a module of the repository.
func (r *repository) own(path string) bool {
	return r.isReleased(path) || slices.ContainsFunc(r.excluded, func(m *module) bool { return m.path == path })
}

// dirOf returns where the module is on disk.
func (r *repository) dirOf(m *module) string { return filepath.Join(r.dir, filepath.FromSlash(m.dir)) }

// tag returns the name of the module's tag for the version.
func (m *module) tag(version string) string { return path.Join(m.dir, version) }
