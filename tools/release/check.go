package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// candidate is the version that check gives the release. It is after every other one of its major.
const candidate = "v0.999.0"

// check makes a release in a clone, and builds with it as users will: outside the repository and with an empty module
// cache. The go command gets the modules from the tags of the clone, for which git is told to take it for the
// repository's address, and others' modules from those that were downloaded before. change breaks the release, for a test.
func check(ctx context.Context, out io.Writer, dir string, change func(r *repository)) (err error) {
	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	r, err := cloneOf(ctx, dir, filepath.Join(temp, "clone"))
	if err != nil {
		return err
	}
	if err := r.rewrite(ctx, candidate, temp); err != nil {
		return err
	}
	if change != nil {
		change(r)
	}
	if err := errors.Join(r.commit(ctx, candidate), r.sizes(out, temp)); err != nil {
		return err
	}
	u, err := newUser(ctx, out, temp, r)
	if err != nil {
		return err
	}
	return u.tryAll(ctx, r)
}

// user builds programs with the release, in directories of its own.
type user struct {
	dir   string
	out   io.Writer
	env   []string
	tries int
}

func newUser(ctx context.Context, out io.Writer, temp string, r *repository) (*user, error) {
	cache, err := command(ctx, r.dir, os.Environ(), "go", "env", "GOCACHE")
	if err != nil {
		return nil, err
	}
	modules, err := command(ctx, r.dir, os.Environ(), "go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	root := r.released[0].path
	// An empty variable leaves what go env -w has set, unless GOENV is off. What others have written is compiled as the gate compiles
	// it, with cgo or without, so that it is found in the cache.
	return &user{dir: temp, out: out, env: append(os.Environ(), "GOENV=off", "GOCACHE="+cache,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+r.dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+root,
		"GOPRIVATE="+root, "GOPROXY=file://"+filepath.ToSlash(filepath.Join(modules, "cache", "download")),
		"GOMODCACHE="+filepath.Join(temp, "modcache"), "GOBIN="+filepath.Join(temp, "bin"),
		"GOSUMDB=off", "GONOSUMDB=", "GONOPROXY=", "GOVCS=", "GOWORK=off", "GOTOOLCHAIN=local",
		"GOFLAGS=-mod=mod -trimpath -modcacherw",
	)}, nil
}

func (u *user) ok(format string, args ...any) { _, _ = fmt.Fprintf(u.out, "ok  "+format+"\n", args...) }

// tryAll uses each module alone, then all together, and vets the libraries with their tests and examples. It runs the
// commands of the install page, and builds the checkout of each tag.
func (u *user) tryAll(ctx context.Context, r *repository) error {
	var all []string
	for _, m := range r.released {
		if m.program {
			if err := u.install(ctx, m.path); err != nil {
				return err
			}
		}
		if len(m.libraries) > 0 {
			if _, err := u.use(ctx, []*module{m}, m.libraries); err != nil {
				return err
			}
		}
		all = append(all, m.libraries...)
	}
	dir, err := u.use(ctx, r.released, all)
	if err != nil {
		return err
	}
	if _, err := command(ctx, dir, u.env, "go", slices.Concat([]string{"vet"}, all)...); err != nil {
		return fmt.Errorf("examples: %w", err)
	}
	u.ok("go vet of %d packages, with their examples", len(all))
	if err := u.tryPage(ctx, r); err != nil {
		return err
	}
	for _, m := range r.released { // checked by its own go.sum
		if _, err := command(ctx, r.dirOf(m), append(u.env, "GOFLAGS=-mod=readonly -trimpath -modcacherw"), "go", "build", "./..."); err != nil {
			return fmt.Errorf("a checkout of %s: %w", m.tag(candidate), err)
		}
	}
	u.ok("each module, in a checkout of its tag")
	return nil
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
	u.ok("go install %s@%s: %s", program, candidate, says)
	return nil
}

// newDir makes a directory for a program that requires the modules, and returns its name.
func (u *user) newDir(modules []*module) (string, error) {
	u.tries++
	dir := filepath.Join(u.dir, fmt.Sprint("user", u.tries))
	if err := os.Mkdir(dir, 0o750); err != nil {
		return "", err
	}
	mod := bytes.NewBufferString("module example.com/user\n\ngo 1.26.0\n")
	for _, m := range modules {
		fmt.Fprintf(mod, "require %s %s\n", m.path, candidate)
	}
	return dir, os.WriteFile(filepath.Join(dir, "go.mod"), mod.Bytes(), 0o600)
}

// use builds and runs a program that requires the modules and imports the libraries, and returns its directory.
func (u *user) use(ctx context.Context, modules []*module, libraries []string) (string, error) {
	dir, err := u.newDir(modules)
	if err != nil {
		return "", err
	}
	text := bytes.NewBufferString("package main\n\nimport (\n")
	for _, l := range libraries {
		fmt.Fprintf(text, "\t_ %q\n", l)
	}
	text.WriteString(")\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), text.Bytes(), 0o600); err != nil {
		return "", err
	}
	if _, err := command(ctx, dir, u.env, "go", "run", "."); err != nil {
		return "", fmt.Errorf("a program with %s: %w", modules[0].path, err)
	}
	u.ok("a program with %d modules, %s first: %d packages", len(modules), modules[0].path, len(libraries))
	return dir, nil
}

// installPage has the commands that install a published version, below installMark.
const (
	installPage = "docs/install.md"
	installMark = "<!-- published-command -->"
)

// tryPage runs the commands that install a published version, to the letter.
func (u *user) tryPage(ctx context.Context, r *repository) error {
	text, err := os.ReadFile(filepath.Join(r.dir, filepath.FromSlash(installPage)))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), installMark)
	_, rest, _ = strings.Cut(rest, "```sh\n")
	commands, _, found := strings.Cut(rest, "\n```")
	if !found {
		return errors.New(installPage + " has no shell block below " + installMark)
	}
	dir, err := u.newDir(nil)
	if err != nil {
		return err
	}
	if _, err := command(ctx, dir, u.env, "sh", "-eu", "-c", commands); err != nil {
		return fmt.Errorf("the commands of %s: %w", installPage, err)
	}
	u.ok("the commands of %s", installPage)
	return nil
}
