package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// builder builds programs as go install does for users: outside of the repository, without its replaces.
type builder struct {
	release *release
	dir     string // GOPATH
	env     []string
	source  string // the module's folder
}

func newBuilder(ctx context.Context, r *release, dir string) (*builder, error) {
	text, err := exec.CommandContext(ctx, "go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var user struct{ GOCACHE, GOMODCACHE, GOPROXY, GOSUMDB string }
	if err := json.Unmarshal(text, &user); err != nil {
		return nil, err
	}
	if r.proxy != "" {
		proxy, err := filepath.Abs(r.proxy)
		if err != nil {
			return nil, err
		}
		// Nobody has published sums of what is in the folder. The other modules come from the cache of downloads, into which
		// only what go.sum names has come.
		downloads := filepath.Join(user.GOMODCACHE, "cache", "download")
		user.GOPROXY, user.GOSUMDB = "file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(downloads), "off"
	}
	// The tag leaves out pages of gRPC's that import html/template: the program would have 34 MB instead of 22.
	// What go env -w has set, and what chooses instructions and experiments, would be in the program, or move it.
	b := &builder{release: r, dir: dir, env: append(os.Environ(),
		"GOENV=off", "GOCACHE="+user.GOCACHE, "GOPROXY="+user.GOPROXY, "GOSUMDB="+user.GOSUMDB,
		"GOPRIVATE=", "GONOPROXY=", "GONOSUMDB=", "GOPATH="+dir, "GOMODCACHE="+filepath.Join(dir, "mod"), "GOBIN=",
		"GOFLAGS=-modcacherw -trimpath -ldflags=-s -tags=grpcnotrace", "GOWORK=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0",
		"GOAMD64=", "GOARM64=", "GOEXPERIMENT=", "GOFIPS140=",
	)}
	text, err = b.run(ctx, nil, "go", "mod", "download", "-json", r.module+"@"+r.version)
	if err != nil {
		return nil, err
	}
	var module struct{ Dir string }
	err = json.Unmarshal(text, &module)
	b.source = module.Dir
	return b, err
}

// build builds the program for a system.
func (b *builder) build(ctx context.Context, s system) (file, error) {
	return b.install(ctx, b.release.module, s)
}

// install builds a program and reads it.
func (b *builder) install(ctx context.Context, program string, s system) (file, error) {
	if _, err := b.run(ctx, []string{"GOOS=" + s.os, "GOARCH=" + s.arch}, "go", "install", program+"@"+b.release.version); err != nil {
		return file{}, err
	}
	name := b.binary(program, s)
	data, err := os.ReadFile(name)
	return file{filepath.Base(name), 0o755, data}, err
}

// binary returns where go install puts a program.
func (b *builder) binary(program string, s system) string {
	name := path.Base(program)
	if s.os == "windows" {
		name += ".exe"
	}
	if s.os == runtime.GOOS && s.arch == runtime.GOARCH {
		return filepath.Join(b.dir, "bin", name)
	}
	return filepath.Join(b.dir, "bin", s.os+"_"+s.arch, name)
}

// documents are what comes with the program.
type documents struct {
	man         []file // sluice-run.1, sluice-proxy.yaml.5
	completions []file // sluice.bash, _sluice, sluice.fish
	texts       []file // LICENSE, README.md, THIRD-PARTY-LICENSES
}

// documents runs the program that writes man pages and completions.
func (b *builder) documents(ctx context.Context) (documents, error) {
	here := system{runtime.GOOS, runtime.GOARCH}
	generate := b.release.module + "/internal/generate"
	if _, err := b.install(ctx, generate, here); err != nil {
		return documents{}, err
	}
	dir := filepath.Join(b.dir, "documents")
	if err := os.Mkdir(dir, 0o750); err != nil {
		return documents{}, err
	}
	at := strconv.FormatInt(b.release.at.Unix(), 10)
	if _, err := b.run(ctx, nil, b.binary(generate, here), dir, b.release.number(), at); err != nil {
		return documents{}, err
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return documents{}, err
	}
	var d documents
	for _, f := range found {
		text, err := read(filepath.Join(dir, f.Name()))
		if err != nil {
			return documents{}, err
		}
		if section := filepath.Ext(f.Name()); section == ".1" || section == ".5" {
			d.man = append(d.man, text)
		} else {
			d.completions = append(d.completions, text)
		}
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		text, err := read(filepath.Join(b.source, name))
		if err != nil {
			return documents{}, err
		}
		d.texts = append(d.texts, text)
	}
	return d, nil
}

// packaging reads a file of the program's folder packaging.
func (b *builder) packaging(name string) (file, error) {
	return read(filepath.Join(b.source, "packaging", name))
}

func read(name string) (file, error) {
	data, err := os.ReadFile(name)
	return file{filepath.Base(name), 0o644, data}, err
}

// run runs a program in the builder's folder and returns its output.
func (b *builder) run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // go, and what it has built
	cmd.Dir, cmd.Env, cmd.WaitDelay = b.dir, slices.Concat(b.env, env), time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, said.Bytes(), out)
	}
	return out, nil
}
