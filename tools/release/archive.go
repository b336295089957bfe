package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	modpath "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// mostOfFile is the size above which a file burdens each user of a library. A program's users want its files.
const mostOfFile = 1 << 20

// archiveName returns the name of the module's zip file.
func (r *repository) archiveName(archives string, m *module) string {
	return filepath.Join(archives, strings.ReplaceAll(m.path, "/", "_")+".zip")
}

// archive writes the zip file that a module proxy has of the module.
func (r *repository) archive(m *module, version, name string) (err error) {
	files, err := r.files(m)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return zip.Create(f, modpath.Version{Path: m.path, Version: version}, files)
}

// files returns the module's files: those of its directory but for other modules, and the repository's LICENSE, which the
// go command gives a module that has none.
func (r *repository) files(m *module) ([]zip.File, error) {
	dir := r.dirOf(m)
	var files []zip.File
	license := false
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if rel == ".git" || rel != "." && err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if rel == ".git" { // a worktree's is a file
			return nil
		}
		license = license || rel == "LICENSE"
		files = append(files, diskFile{filepath.ToSlash(rel), name})
		return nil
	})
	if err == nil && !license {
		files = append(files, diskFile{"LICENSE", filepath.Join(r.dir, "LICENSE")})
	}
	return files, err
}

// diskFile is a file of a module on disk.
type diskFile struct{ path, name string }

func (f diskFile) Path() string                 { return f.path }
func (f diskFile) Lstat() (os.FileInfo, error)  { return os.Lstat(f.name) }
func (f diskFile) Open() (io.ReadCloser, error) { return os.Open(f.name) }

// write writes a module proxy into dir that has the released modules at the version, and prints their sizes. It
// fails if a library has a file that is too large.
func (r *repository) write(version, archives, dir string, out io.Writer) error {
	var all error
	for _, m := range r.released {
		escaped, err := modpath.EscapePath(m.path)
		if err != nil {
			return err
		}
		sub := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(sub, 0o750); err != nil {
			return err
		}
		archive, err := os.ReadFile(r.archiveName(archives, m))
		if err != nil {
			return err
		}
		mod, err := os.ReadFile(filepath.Join(r.dirOf(m), "go.mod"))
		if err != nil {
			return err
		}
		for name, text := range map[string][]byte{
			"list":            []byte(version + "\n"),
			version + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":"2000-01-01T00:00:00Z"}`, version),
			version + ".mod":  mod,
			version + ".zip":  archive,
		} {
			if err := os.WriteFile(filepath.Join(sub, name), text, 0o600); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(out, "%8d bytes  %s\n", len(archive), m.path); err != nil {
			return err
		}
		all = errors.Join(all, r.large(m))
	}
	return all
}

// large reports the module's files that are too large for a library. A module without packages to import is none.
func (r *repository) large(m *module) error {
	libraries, _, err := r.packages(m)
	if err != nil || len(libraries) == 0 {
		return err
	}
	files, err := r.files(m)
	for _, f := range files {
		info, e := f.Lstat()
		if e != nil {
			return e
		}
		if info.Size() > mostOfFile {
			err = errors.Join(err, fmt.Errorf("%s: %s has %d bytes, want at most %d", m.path, f.Path(), info.Size(), mostOfFile))
		}
	}
	return err
}
