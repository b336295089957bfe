package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// vetExamples vets the libraries' examples in a module of the user's. A file of examples that needs another test file is
// left out, and named.
func (u *user) vetExamples(ctx context.Context, r *repository, libraries []library) error {
	dir, err := u.newDir(r.requirements())
	if err != nil {
		return err
	}
	copied := 0
	for i, l := range libraries {
		names, err := filepath.Glob(filepath.Join(l.dir, "example*_test.go"))
		if err != nil {
			return err
		}
		for _, name := range names {
			missing, err := missingIn(name)
			if err != nil {
				return err
			}
			if missing != "" {
				if _, err := fmt.Fprintf(u.out, "    %s of %s needs %s of another file: left out\n", filepath.Base(name), l.path, missing); err != nil {
					return err
				}
				continue
			}
			copied++
			if err := copyFile(name, filepath.Join(dir, fmt.Sprint("p", i), filepath.Base(name))); err != nil {
				return err
			}
		}
	}
	if copied == 0 {
		return nil
	}
	if _, err := command(ctx, dir, u.env, "go", "vet", "./..."); err != nil {
		return fmt.Errorf("examples: %w", err)
	}
	_, err = fmt.Fprintf(u.out, "ok  %d files of examples\n", copied)
	return err
}

// requirements returns what the released modules require, at the highest version of each.
func (r *repository) requirements() map[string]string {
	all := make(map[string]string)
	for _, m := range r.released {
		all[m.path] = candidate
		for _, q := range m.file.Require {
			if !r.own(q.Mod.Path) && semver.Compare(q.Mod.Version, all[q.Mod.Path]) > 0 {
				all[q.Mod.Path] = q.Mod.Version
			}
		}
	}
	return all
}

// missingIn returns a name that the file uses and neither declares nor imports; "" if there is none.
func missingIn(name string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		return "", err
	}
	imported := make(map[string]bool)
	for _, i := range file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return "", err
		}
		imported[importedAs(i, p)] = true
	}
	for _, id := range file.Unresolved {
		if types.Universe.Lookup(id.Name) == nil && !imported[id.Name] {
			return id.Name, nil
		}
	}
	return "", nil
}

// importedAs returns the name of the import: a major version at the end of a path is none, nor is go- before a name.
func importedAs(i *ast.ImportSpec, p string) string {
	if i.Name != nil {
		return i.Name.Name
	}
	base := path.Base(p)
	if semver.IsValid(base) && path.Dir(p) != "." {
		return importedAs(i, path.Dir(p))
	}
	return strings.TrimPrefix(base, "go-")
}

// copyFile copies a file, and makes its directory.
func copyFile(name, target string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	return os.WriteFile(target, text, 0o600)
}
