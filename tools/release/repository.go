package main

import (
	"context"
	"errors"
	"fmt"
	"go/build"
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
	released []*module // released in the order of modules.yaml
	excluded []*module
}

// module is a directory with a go.mod.
type module struct {
	path      string
	dir       string // relative to the repository's, with slashes; "." for the root
	file      *modfile.File
	libraries []string // packages that users import
	program   bool     // the module is a program that users install
}

// modulesFile lists the modules of a repository.
const modulesFile = "tools/release/modules.yaml"

// openRepository reads modules.yaml and each go.mod. It fails unless modules.yaml lists each module once.
func openRepository(ctx context.Context, dir string) (*repository, error) {
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(modulesFile)))
	if err != nil {
		return nil, err
	}
	var list struct {
		Modules  []string          `yaml:"modules"`
		Excluded map[string]string `yaml:"excluded"`
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", modulesFile, err)
	}
	found, err := modulesIn(ctx, dir)
	if err != nil {
		return nil, err
	}
	take := func(p string) []*module {
		m := found[p]
		delete(found, p)
		if m == nil {
			err = errors.Join(err, fmt.Errorf("%s: module %s is listed twice, or is not in the repository", modulesFile, p))
			return nil
		}
		return []*module{m}
	}
	r := &repository{dir: dir}
	for _, p := range list.Modules {
		r.released = append(r.released, take(p)...)
	}
	for p, reason := range list.Excluded {
		r.excluded = append(r.excluded, take(p)...)
		if reason == "" {
			err = errors.Join(err, fmt.Errorf("%s: excluded module %s has no reason", modulesFile, p))
		}
	}
	for p := range found {
		err = errors.Join(err, fmt.Errorf("%s does not name %s", modulesFile, p))
	}
	return r, err
}

// modulesIn finds the modules by their paths.
func modulesIn(ctx context.Context, dir string) (map[string]*module, error) {
	files, err := git(ctx, dir, "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	found := make(map[string]*module)
	byDir := make(map[string]*module)
	packages := make(map[string]bool)
	for name := range strings.Lines(files) {
		name = strings.TrimSpace(name)
		switch {
		case strings.Contains("/"+name, "/testdata/") || strings.Contains("/"+name, "/."):
		case path.Base(name) == "go.mod":
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			file, err := modfile.Parse(name, text, nil)
			if err != nil {
				return nil, err
			}
			m := &module{path: file.Module.Mod.Path, dir: path.Dir(name), file: file}
			found[m.path], byDir[m.dir] = m, m
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			packages[path.Dir(name)] = true
		}
	}
	for p := range packages {
		m := p
		for byDir[m] == nil && m != "." {
			m = path.Dir(m)
		}
		if err := byDir[m].add(dir, p); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// add adds a package, unless users cannot import it.
func (m *module) add(root, dir string) error {
	if strings.Contains("/"+dir+"/", "/internal/") || strings.Contains("/"+dir+"/", "/examples/") {
		return nil
	}
	p, err := build.ImportDir(filepath.Join(root, dir), 0)
	if _, none := errors.AsType[*build.NoGoError](err); none {
		return nil // it is for another system
	}
	if err != nil {
		return err
	}
	if p.Name == "main" {
		m.program = m.program || dir == m.dir
		return nil
	}
	m.libraries = append(m.libraries, path.Join(m.path, strings.TrimPrefix(strings.TrimPrefix(dir, m.dir), "/")))
	slices.Sort(m.libraries)
	return nil
}

// isReleased reports whether the path is a released module's.
func (r *repository) isReleased(path string) bool { return r.place(path) >= 0 }

// place returns where in the order of releases the module is, -1 if it is not released.
func (r *repository) place(path string) int {
	return slices.IndexFunc(r.released, func(m *module) bool { return m.path == path })
}

// dirOf returns where the module is on disk.
func (r *repository) dirOf(m *module) string { return filepath.Join(r.dir, filepath.FromSlash(m.dir)) }

// tag returns the name of the module's tag for the version.
func (m *module) tag(version string) string { return path.Join(m.dir, version) }
