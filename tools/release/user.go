package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// user builds programs with the release, in directories of its own.
type user struct {
	dir   string
	out   io.Writer
	env   []string
	tries int
}

// newUser returns a user who has an empty module cache, and no network.
func newUser(ctx context.Context, out io.Writer, dir, proxy string) (*user, error) {
	text, err := command(ctx, dir, nil, "go", "env", "-json", "GOCACHE", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	var here struct{ GOCACHE, GOMODCACHE string }
	if err := json.Unmarshal([]byte(text), &here); err != nil {
		return nil, err
	}
	filled := filepath.Join(here.GOMODCACHE, "cache", "download")
	// An empty variable leaves what go env -w has set, unless GOENV is off. No package of ours has C; without it, packages compile as
	// those of the tools and of tools/dist, which the cache has then.
	return &user{dir: dir, out: out, env: append(os.Environ(), "GOENV=off", "GOCACHE="+here.GOCACHE,
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(filled),
		"GOMODCACHE="+filepath.Join(dir, "modcache"), "GOBIN="+filepath.Join(dir, "bin"),
		"GOSUMDB=off", "GONOSUMDB=", "GOPRIVATE=", "GONOPROXY=", "GOVCS=*:off", "GOWORK=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0",
		"GOFLAGS=-mod=mod -trimpath -modcacherw",
	)}, nil
}

// library is a package that users import.
type library struct{ path, dir string }

// tryAll uses each module alone, then all together.
func (u *user) tryAll(ctx context.Context, r *repository) error {
	var all []library
	for _, m := range r.released {
		libraries, program, err := r.packages(m)
		if err != nil {
			return err
		}
		if program {
			if err := u.install(ctx, m.path); err != nil {
				return err
			}
		}
		if len(libraries) == 0 {
			continue
		}
		if err := u.use(ctx, []*module{m}, libraries); err != nil {
			return err
		}
		all = append(all, libraries...)
	}
	if err := u.use(ctx, r.released, all); err != nil {
		return err
	}
	return u.vetExamples(ctx, r, all)
}

// packages returns the packages of the module that users import, and whether the module is a program that they install.
// A program in a directory below is none for users.
func (r *repository) packages(m *module) (libraries []library, program bool, err error) {
	root := r.dirOf(m)
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch _, err := os.Stat(filepath.Join(name, "go.mod")); {
		case name == root:
		case err == nil, strings.HasPrefix(d.Name(), "."), d.Name() == "testdata", d.Name() == "internal", d.Name() == "examples":
			return filepath.SkipDir
		}
		p, err := build.ImportDir(name, 0)
		if _, none := errors.AsType[*build.NoGoError](err); none {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if p.Name == "main" {
			program = program || name == root
			return nil
		}
		libraries = append(libraries, library{path.Join(m.path, filepath.ToSlash(rel)), name})
		return nil
	})
	return libraries, program, err
}

// install installs a program and asks it for its version.
func (u *user) install(ctx context.Context, program string) error {
	if _, err := command(ctx, u.dir, u.env, "go", "install", program+"@"+candidate); err != nil {
		return err
	}
	says, err := command(ctx, u.dir, u.env, filepath.Join(u.dir, "bin", path.Base(program)), "version")
	if err != nil {
		return err
	}
	if !strings.Contains(says, candidate) {
		return fmt.Errorf("%s version says %q, want %s", program, says, candidate)
	}
	_, err = fmt.Fprintf(u.out, "ok  go install %s@%s: %s\n", program, candidate, says)
	return err
}

// newDir makes a directory for a program that requires the modules, and returns its name.
func (u *user) newDir(requires map[string]string) (string, error) {
	u.tries++
	dir := filepath.Join(u.dir, fmt.Sprint("user", u.tries))
	if err := os.Mkdir(dir, 0o750); err != nil {
		return "", err
	}
	mod := bytes.NewBufferString("module example.com/user\n\ngo 1.26.0\n")
	for p, v := range requires {
		fmt.Fprintf(mod, "require %s %s\n", p, v)
	}
	return dir, os.WriteFile(filepath.Join(dir, "go.mod"), mod.Bytes(), 0o600)
}

// use builds and runs a program that requires the modules and imports the libraries.
func (u *user) use(ctx context.Context, modules []*module, libraries []library) error {
	requires := make(map[string]string)
	for _, m := range modules {
		requires[m.path] = candidate
	}
	dir, err := u.newDir(requires)
	if err != nil {
		return err
	}
	text := bytes.NewBufferString("package main\n\nimport (\n")
	for _, l := range libraries {
		fmt.Fprintf(text, "\t_ %q\n", l.path)
	}
	text.WriteString(")\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), text.Bytes(), 0o600); err != nil {
		return err
	}
	if _, err := command(ctx, dir, u.env, "go", "run", "."); err != nil {
		return fmt.Errorf("a program with %s: %w", modules[0].path, err)
	}
	_, err = fmt.Fprintf(u.out, "ok  a program with %d modules, %s first: %d packages\n", len(modules), modules[0].path, len(libraries))
	return err
}
