package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
)

// stream is one source that goes to one sink.
type stream struct {
	name   string
	src    io.Reader
	dst    io.Writer
	size   int64 // 0: unknown
	copied atomic.Int64
	close  func() error
}

// open returns what is to be copied. Nothing is created until all sources are open.
func open(names []string, out string, stdin, stdout *os.File) (streams []*stream, err error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	var files []*os.File
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(files))
		}
	}()
	for _, name := range names {
		f, err := openSource(name, stdin)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if info, err := os.Stat(out); out != "-" && err == nil && info.IsDir() {
		return intoDirectory(files, names, out)
	}
	return oneAfterTheOther(files, names, out, stdout)
}

func openSource(name string, stdin *os.File) (*os.File, error) {
	if name == "-" {
		return stdin, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is a directory", name), f.Close())
	}
	return f, nil
}

// intoDirectory returns a stream for each file.
func intoDirectory(files []*os.File, names []string, dir string) ([]*stream, error) {
	targets := make(map[string]string)
	for i, name := range names {
		target := filepath.Join(dir, baseOf(name))
		if other, taken := targets[target]; taken {
			return nil, fmt.Errorf("%s and %s would both be copied to %s", other, name, target)
		}
		targets[target] = name
		if err := refuseSame(files[i], target); err != nil {
			return nil, err
		}
	}
	streams := make([]*stream, 0, len(files))
	for i, name := range names {
		target, err := os.Create(filepath.Join(dir, baseOf(name)))
		if err != nil {
			for _, s := range streams {
				err = errors.Join(err, s.close())
			}
			return nil, err
		}
		streams = append(streams, &stream{
			name: baseOf(name), src: files[i], dst: target, size: sizeOf(files[i]),
			close: func() error { return closeAll([]*os.File{target, files[i]}) },
		})
	}
	return streams, nil
}

// baseOf returns the name of a source's copy.
func baseOf(name string) string {
	if name == "-" {
		return "stdin"
	}
	return filepath.Base(name)
}

// oneAfterTheOther returns a single stream of all files.
func oneAfterTheOther(files []*os.File, names []string, out string, stdout *os.File) ([]*stream, error) {
	s := &stream{name: names[0], dst: stdout}
	opened := files
	if out != "-" {
		for _, f := range files {
			if err := refuseSame(f, out); err != nil {
				return nil, err
			}
		}
		target, err := os.Create(out)
		if err != nil {
			return nil, err
		}
		s.dst = target
		opened = append([]*os.File{target}, files...)
	}
	s.close = func() error { return closeAll(opened) }
	for _, f := range files {
		size := sizeOf(f)
		if size == 0 { // of one size unknown the sum is too
			s.size = 0
			break
		}
		s.size += size
	}
	if len(files) == 1 {
		s.src = files[0]
		return []*stream{s}, nil
	}
	readers := make([]io.Reader, len(files))
	for i, f := range files {
		readers[i] = f
	}
	s.name = fmt.Sprintf("%d files", len(files))
	s.src = io.MultiReader(readers...)
	return []*stream{s}, nil
}

// refuseSame is an error if target is the file that is to be read: to create it would
// empty it.
func refuseSame(f *os.File, target string) error {
	a, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := os.Stat(target)
	if err == nil && a.Mode().IsRegular() && os.SameFile(a, b) {
		return fmt.Errorf("%s is what is to be read; it can't be written to as well", target)
	}
	return nil
}

// sizeOf returns how many bytes are left in a regular file, 0 for anything else.
func sizeOf(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return max(info.Size()-at, 0)
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		if f != os.Stdin {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
