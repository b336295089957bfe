package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"path"
)

// archive writes a zip file for Windows, else a tar file.
func (r *release) archive(b *builder, s system, program file, docs documents) error {
	folder := r.archiveName(s)
	files := []file{program.in(folder)}
	if s.os == "linux" {
		for _, name := range []string{"sluice-proxy.service", "sluice-serve.service"} {
			unit, err := b.packaging(name)
			if err != nil {
				return err
			}
			files = append(files, unit.in(folder))
		}
	}
	for _, f := range docs.texts {
		files = append(files, f.in(folder))
	}
	for _, f := range docs.completions {
		files = append(files, f.in(path.Join(folder, "completions")))
	}
	for _, f := range docs.man {
		files = append(files, f.in(path.Join(folder, "man")))
	}
	pack, suffix := r.tar, ".tar.gz"
	if s.os == "windows" {
		pack, suffix = r.zip, ".zip"
	}
	data, err := pack(files)
	if err != nil {
		return err
	}
	return r.write(folder+suffix, data)
}

// archiveName returns the name of the system's archive, without what tells its kind.
func (r *release) archiveName(s system) string {
	return fmt.Sprintf("%s_%s_%s_%s", r.name(), r.number(), s.os, s.arch)
}

// in returns the file in a folder.
func (f file) in(folder string) file {
	f.name = path.Join(folder, f.name)
	return f
}

func (r *release) tar(files []file) ([]byte, error) {
	var data bytes.Buffer
	z := gzip.NewWriter(&data)
	t := tar.NewWriter(z)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{
			Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: r.at, Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	err := z.Close()
	return data.Bytes(), err
}

func (r *release) zip(files []file) ([]byte, error) {
	var data bytes.Buffer
	z := zip.NewWriter(&data)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.at}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return data.Bytes(), err
}

// compress returns the file as gzip -n has it.
func (f file) compress() (file, error) {
	var data bytes.Buffer
	z, err := gzip.NewWriterLevel(&data, gzip.BestCompression)
	if err != nil {
		return file{}, err
	}
	if _, err := z.Write(f.data); err != nil {
		return file{}, err
	}
	err = z.Close()
	return file{f.name + ".gz", f.mode, data.Bytes()}, err
}
