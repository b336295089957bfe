package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Folders returns the folders below root that hold packages which other modules can import, as "./core": not those of
// internal, examples, bench, tools and testdata, and not those of a module of its own.
func Folders(root string) ([]string, error) {
	var folders []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, path)
		}
		name := d.Name()
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			folders = append(folders, "./"+filepath.ToSlash(folder))
		}
		return nil
	})
	slices.Sort(folders)
	return slices.Compact(folders), err
}

// enter returns fs.SkipDir for a folder whose packages are not part of the API.
func enter(root, path string) error {
	if path == root {
		return nil
	}
	name := filepath.Base(path)
	switch name {
	case "internal", "examples", "bench", "tools", "testdata", "vendor":
		return fs.SkipDir
	}
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// List returns the listings of the packages in folders, which are relative to root. Programs have none, nor have
// packages that export nothing.
//
// The types are read from the compiler's export data, so that they are the compiler's own, inferred types and
// promoted methods included. They are always those of linux/amd64: a record cannot depend on who writes it.
func List(ctx context.Context, root string, folders []string) ([]Listing, error) {
	packages, err := load(ctx, root, folders)
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string, len(packages))
	for i := range packages {
		exports[packages[i].ImportPath] = packages[i].Export
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		file := exports[path]
		if file == "" {
			return nil, fmt.Errorf("api: no export data of %s", path)
		}
		return os.Open(file)
	})
	var listings []Listing
	for i := range packages {
		p := &packages[i]
		if p.DepOnly || p.Name == "main" {
			continue
		}
		types, err := from.Import(p.ImportPath)
		if err != nil {
			return nil, err
		}
		if l := newListing(types, p.Module.Path); len(l.Lines) > 0 {
			listings = append(listings, l)
		}
	}
	slices.SortFunc(listings, func(a, b Listing) int { return strings.Compare(a.Path, b.Path) })
	return listings, nil
}

// goPackage is what go list tells of a package.
type goPackage struct {
	ImportPath string
	Name       string
	Export     string // file of its export data
	DepOnly    bool   // not asked for, only imported
	Module     struct{ Path string }
}

func load(ctx context.Context, root string, folders []string) ([]goPackage, error) {
	if len(folders) == 0 {
		return nil, nil
	}
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Name,Export,DepOnly,Module"}, folders...)
	list := exec.CommandContext(ctx, "go", args...)
	list.Dir = root
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("api: go list: %w\n%s", err, stderr.String())
	}
	var packages []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("api: go list: %w", err)
		}
		packages = append(packages, p)
	}
}
