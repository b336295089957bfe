// Package docs reads the pages of docs/, so that tests can hold their blocks against code that
// compiles, and run them.
//
// A Go block of a page is a copy. The line above it says of what:
//
//	<!-- file: docs/start/main.go -->          the whole file
//	<!-- file: compat/guide/grpc.go#server,client -->  declarations of it, by name, in this order
//	<!-- file: compat/guide/grpc.go#import,server -->  its imports, and a declaration
//	<!-- file: core/example_test.go#ExampleEvery -->   the body of an example, without its output
//
// A method is named Type.Method. Blocks of other languages may be copies of whole files. Each line
// of a block of the language spec is a limit.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Block is a fenced block of a page.
type Block struct {
	Page     string // its path in the repository
	Line     int    // line of the fence
	Language string // the word behind the fence, or ""
	Source   string // what the mark above names, or ""
	Text     string
}

// Pages returns the paths of the pages of docs/, from the root of the repository.
func Pages(root string) ([]string, error) {
	var pages []string
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	return pages, err
}

var (
	fence = regexp.MustCompile("^ *```+(\\w*)$")
	mark  = regexp.MustCompile(`^ *<!-- file: (\S+) -->$`)
)

// Blocks returns the blocks of a page. A block that does not end, and a mark without a block, are
// errors.
func Blocks(root, page string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return nil, err
	}
	var (
		blocks []Block
		open   bool
		source string // source in the mark that was the last line with text
	)
	for i, line := range strings.Split(string(text), "\n") {
		opens, marks := fence.FindStringSubmatch(line), mark.FindStringSubmatch(line)
		switch {
		case open && opens == nil:
			blocks[len(blocks)-1].Text += line + "\n"
		case open:
			open = false
		case opens != nil:
			blocks = append(blocks, Block{Page: page, Line: i + 1, Language: opens[1], Source: source})
			open, source = true, ""
		case strings.TrimSpace(line) == "":
		case source != "":
			return nil, fmt.Errorf("%s:%d: no block follows the mark of %s", page, i+1, source)
		case marks != nil:
			source = marks[1]
		}
	}
	if open || source != "" {
		return nil, fmt.Errorf("%s: its last block does not end, or its last mark has none", page)
	}
	return blocks, nil
}

// Update writes what the marks of a page name into its blocks.
func Update(root, page string) error {
	blocks, err := Blocks(root, page)
	if err != nil {
		return err
	}
	name := filepath.Join(root, filepath.FromSlash(page))
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(text), "\n")
	for _, b := range slices.Backward(blocks) {
		if b.Source == "" {
			continue
		}
		part, err := Excerpt(root, b.Source)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", page, b.Line, err)
		}
		lines = slices.Replace(lines, b.Line, b.Line+strings.Count(b.Text, "\n"), part)
	}
	return os.WriteFile(name, []byte(strings.Join(lines, "")), 0o644)
}
