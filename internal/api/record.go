package api

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Write makes folder the record of listings: a file for each, and no other.
func Write(folder string, listings []Listing) error {
	stale, err := recorded(folder)
	if err != nil {
		return err
	}
	for _, l := range listings {
		file := file(folder, l.Path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(l.String()), 0o644); err != nil {
			return err
		}
		delete(stale, l.Path)
	}
	for path := range stale {
		if err := os.Remove(file(folder, path)); err != nil {
			return err
		}
	}
	return nil
}

// Diff returns how the record in folder differs from listings, "-" before a recorded line that is no longer true and
// "+" before one that is not recorded; it is empty where they agree.
func Diff(folder string, listings []Listing) (string, error) {
	old, err := recorded(folder)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, l := range listings {
		if old[l.Path] != l.String() {
			writeDiff(&out, l.Path, old[l.Path], l.String())
		}
		delete(old, l.Path)
	}
	gone := make([]string, 0, len(old))
	for path := range old {
		gone = append(gone, path)
	}
	slices.Sort(gone)
	for _, path := range gone {
		writeDiff(&out, path, old[path], "")
	}
	return out.String(), nil
}

// writeDiff tells the lines that only one of the two has. Lines of a listing are distinct, so their order is no matter.
func writeDiff(out *strings.Builder, path, recorded, actual string) {
	was, is := strings.Split(recorded, "\n"), strings.Split(actual, "\n")
	fmt.Fprintf(out, "%s.txt\n", path)
	for _, line := range was {
		if !slices.Contains(is, line) {
			fmt.Fprintf(out, "\t- %s\n", line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			fmt.Fprintf(out, "\t+ %s\n", line)
		}
	}
}

// recorded returns the texts of folder's files by package path. A folder that is not there holds none.
func recorded(folder string) (map[string]string, error) {
	texts := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txt" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		texts[strings.TrimSuffix(filepath.ToSlash(rel), ".txt")] = string(text)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return texts, nil
	}
	return texts, err
}

func file(folder, path string) string { return filepath.Join(folder, filepath.FromSlash(path)+".txt") }
