package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/mod/module"
)

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)`)

// licenses returns the licenses of the modules that are part of the program, which want to be passed on with it.
func (b *builder) licenses(program file) (file, error) {
	info, err := buildinfo.Read(bytes.NewReader(program.data))
	if err != nil {
		return file{}, err
	}
	var text bytes.Buffer
	for _, m := range info.Deps {
		escaped, err := module.EscapePath(m.Path)
		if err != nil {
			return file{}, err
		}
		dir := filepath.Join(b.dir, "mod", filepath.FromSlash(escaped)+"@"+m.Version)
		entries, err := os.ReadDir(dir)
		if err != nil {
			return file{}, err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenseName.MatchString(e.Name()) {
				continue
			}
			f, err := read(filepath.Join(dir, e.Name()))
			if err != nil {
				return file{}, err
			}
			found = true
			fmt.Fprintf(&text, "%s %s, %s:\n\n%s\n\n", m.Path, m.Version, e.Name(), bytes.TrimSpace(f.data))
		}
		if !found {
			return file{}, fmt.Errorf("%s %s has no license", m.Path, m.Version)
		}
	}
	return file{"THIRD-PARTY-LICENSES", 0o644, text.Bytes()}, nil
}
