package service

import (
	"maps"
	"os"
	"path/filepath"
)

// state describes files, so that a changed or replaced file can be told from the one before.
type state map[string]os.FileInfo

// stateOf returns the state of files, and of the files in directories. It follows links, so it also tells when another
// directory is put in place of one.
func stateOf(names []string) state {
	s := make(state)
	for _, name := range names {
		if i := s.add(name); i == nil || !i.IsDir() {
			continue
		}
		entries, _ := os.ReadDir(name) // an error: it has no files
		for _, e := range entries {
			s.add(filepath.Join(name, e.Name()))
		}
	}
	return s
}

func (s state) add(name string) os.FileInfo {
	i, err := os.Stat(name)
	if err != nil {
		return nil
	}
	s[name] = i
	return i
}

func (s state) same(as state) bool {
	return maps.EqualFunc(s, as, func(i, j os.FileInfo) bool {
		return os.SameFile(i, j) && (i.IsDir() || i.Size() == j.Size() && i.ModTime().Equal(j.ModTime()))
	})
}
