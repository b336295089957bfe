package run

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// results keeps the output of each job in files, in the layout of GNU parallel: DIR/1/FIRST/2/SECOND/stdout.
type results struct {
	dir   string   // "": none are kept
	names []string // of the columns, instead of their numbers; see --header
}

var escape = strings.NewReplacer(`\`, `\\`, "/", `\_`, "\t", `\t`, "\x00", `\0`)

const longestName = 255 // of a file, in bytes

// path returns the folder of a job. Each of several arguments that --max-args gives it has a folder 1 of its own.
func (r results) path(in row) string {
	columns := len(in.values)
	if n := len(in.whole); n > 0 && in.grouped {
		columns = max(columns/n, 1)
	}
	path := append(make([]string, 0, 1+2*len(in.values)), r.dir)
	for i, v := range in.values {
		path = append(path, r.column(i%columns), folder(v))
	}
	return filepath.Join(path...)
}

func (r results) column(i int) string {
	if i < len(r.names) {
		return folder(r.names[i])
	}
	return strconv.Itoa(i + 1)
}

// folder returns the name of a folder for any text, as parallel has it.
func folder(text string) string {
	name := escape.Replace(text)
	if name == "." || name == ".." {
		name = `\` + name // they would lead elsewhere
	}
	return name[:min(len(name), longestName)]
}

// keep writes what a job printed.
func (r results) keep(j *job) error {
	if r.dir == "" {
		return nil
	}
	dir := r.path(j.row)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "seq"), []byte(strconv.Itoa(j.seq)), 0o666); err != nil {
		return err
	}
	if err := keepStream(filepath.Join(dir, "stdout"), j.stdout); err != nil {
		return err
	}
	return keepStream(filepath.Join(dir, "stderr"), j.stderr)
}

func keepStream(name string, s *stream) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := s.copyTo(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
