package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release is a version of a program, and where its packages go.
type release struct {
	module  string // whose root is the program
	version string
	at      time.Time // of all files
	proxy   string    // a folder; "": none
	dir     string
	out     io.Writer
	most    int // the size of the program above which nothing is made, in bytes

	made []string // names of files in dir
}

// file is a file of an archive or a package.
type file struct {
	name string // with slashes
	mode os.FileMode
	data []byte
}

// name returns the name of the program.
func (r *release) name() string { return path.Base(r.module) }

// number returns the version as packages have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// make makes the packages for the systems, and SHA256SUMS.
func (r *release) make(ctx context.Context, systems []system) (err error) {
	temp, err := os.MkdirTemp("", "dist")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := os.MkdirAll(r.dir, 0o755); err != nil { //nolint:gosec // it is for everybody
		return err
	}
	if old, err := os.ReadDir(r.dir); err != nil {
		return err
	} else if len(old) > 0 {
		return fmt.Errorf("%s is not empty: all that is in it would seem to be of %s", r.dir, r.version)
	}
	b, err := newBuilder(ctx, r, temp)
	if err != nil {
		return err
	}
	docs, err := b.documents(ctx)
	if err != nil {
		return err
	}
	for _, s := range systems {
		if err := r.makeFor(ctx, b, docs, s); err != nil {
			return fmt.Errorf("%s/%s: %w", s.os, s.arch, err)
		}
	}
	return r.sums()
}

// makeFor makes the packages for one system.
func (r *release) makeFor(ctx context.Context, b *builder, docs documents, s system) error {
	program, err := b.build(ctx, s)
	if err != nil {
		return err
	}
	size := len(program.data)
	if _, err := fmt.Fprintf(r.out, "%8d bytes  %s for %s/%s, at most %d\n", size, program.name, s.os, s.arch, r.most); err != nil {
		return err
	}
	if size > r.most {
		return fmt.Errorf("%s has %d bytes, want at most %d: does it import text/template, which keeps every method?", program.name, size, r.most)
	}
	licenses, err := b.licenses(program)
	if err != nil {
		return err
	}
	docs.texts = append(slices.Clip(docs.texts), licenses)
	if err := r.archive(b, s, program, docs); err != nil {
		return err
	}
	if err := r.materials(s, program); err != nil {
		return err
	}
	if s.os != "linux" {
		return nil
	}
	return r.packages(b, s, program, docs)
}

// write writes a file of the release.
func (r *release) write(name string, data []byte) error {
	r.made = append(r.made, name)
	return os.WriteFile(filepath.Join(r.dir, name), data, 0o644) //nolint:gosec // it is for everybody
}

// sums writes SHA256SUMS, for sha256sum --check, and prints the sizes.
func (r *release) sums() error {
	slices.Sort(r.made)
	var text strings.Builder
	for _, name := range r.made {
		data, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), name)
		if _, err := fmt.Fprintf(r.out, "%8d bytes  %s\n", len(data), name); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(r.dir, "SHA256SUMS"), []byte(text.String()), 0o644) //nolint:gosec // it is for everybody
}
