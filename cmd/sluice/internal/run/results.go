package run

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// results keeps the output of each job in files, in the layout of GNU parallel: DIR/1/FIRST/2/SECOND/stdout.
type results struct{ dir string }

var escape = strings.NewReplacer(`\`, `\\`, "/", `\_`, "\t", `\t`, "\x00", `\0`)

const longestName = 255 // of a file, in bytes

func (r results) path(values []string) string {
	path := append(make([]string, 0, 1+2*len(values)), r.dir)
	for i, v := range values {
		name := escape.Replace(v)
		switch name {
		case ".", "..":
			name = `\` + name // they would lead elsewhere
		}
		name = name[:min(len(name), longestName)] // as parallel does
		path = append(path, strconv.Itoa(i+1), name)
	}
	return filepath.Join(path...)
}

// keep writes what a job printed.
func (r results) keep(j *job, stdout, stderr *capture) error {
	dir := r.path(j.row.values)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "seq"), []byte(strconv.Itoa(j.seq)), 0o666); err != nil {
		return err
	}
	if err := keepStream(filepath.Join(dir, "stdout"), stdout); err != nil {
		return err
	}
	return keepStream(filepath.Join(dir, "stderr"), stderr)
}

func keepStream(name string, c *capture) error {
	r, err := c.reader()
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, r); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
