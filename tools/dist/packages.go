package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// kind is a kind of Linux package: who makes it, and where its system looks for what others have elsewhere.
type kind struct {
	nfpm.Packager

	name, zsh, license string
}

var kinds = []kind{
	{deb.Default, "deb", "/usr/share/zsh/vendor-completions", "/usr/share/doc/sluice/copyright"},
	{rpm.DefaultRPM, "rpm", "/usr/share/zsh/site-functions", "/usr/share/licenses/sluice/LICENSE"},
}

// packages writes the .deb and the .rpm.
func (r *release) packages(b *builder, s system, program file, docs documents) error {
	for _, k := range kinds {
		dir, err := os.MkdirTemp(b.dir, k.name)
		if err != nil {
			return err
		}
		st := &staging{release: r, dir: dir}
		if err := st.add(b, k, program, docs); err != nil {
			return err
		}
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: r.name(), Arch: s.arch, Platform: s.os, Version: r.version, Release: "1",
			Section: "utils", Priority: "optional",
			Maintainer: "The Sluice Authors <sluice-go@users.noreply.github.com>", License: "MIT",
			Homepage:    "https://github.com/sluice-go/sluice",
			Description: "limits for the command line\nIt limits what goes through a pipe, how often commands start, and what a server is asked for.",
			MTime:       r.at, DisableGlobbing: true,
			Overridables: nfpm.Overridables{
				Contents: st.contents,
				Scripts: nfpm.Scripts{
					PostInstall: st.source("postinstall.sh"), PreRemove: st.source("preremove.sh"), PostRemove: st.source("postremove.sh"),
				},
				RPM: nfpm.RPM{BuildHost: "localhost"}, // the default is this machine's name
			},
		})
		if err := nfpm.PrepareForPackager(info, k.name); err != nil {
			return err
		}
		var data bytes.Buffer
		if err := k.Package(info, &data); err != nil {
			return err
		}
		if err := r.write(k.ConventionalFileName(info), data.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// staging is the files of a package, on disk as nfpm wants them.
type staging struct {
	release  *release
	dir      string
	contents files.Contents
}

// source returns where the file of that name is.
func (st *staging) source(name string) string { return filepath.Join(st.dir, name) }

// add adds everything to the package.
func (st *staging) add(b *builder, k kind, program file, docs documents) error {
	if err := st.put(program, "/usr/bin/sluice"); err != nil {
		return err
	}
	for _, f := range docs.man {
		z, err := f.compress()
		if err != nil {
			return err
		}
		if err := st.put(z, "/usr/share/man/man"+strings.TrimPrefix(path.Ext(f.name), ".")+"/"+z.name); err != nil {
			return err
		}
	}
	for _, f := range docs.completions {
		place := map[string]string{
			"sluice.bash": "/usr/share/bash-completion/completions/sluice", "_sluice": k.zsh + "/_sluice",
			"sluice.fish": "/usr/share/fish/vendor_completions.d/sluice.fish",
		}[f.name]
		if err := st.put(f, place); err != nil {
			return err
		}
	}
	for _, f := range docs.texts {
		place := "/usr/share/doc/sluice/" + f.name
		if f.name == "LICENSE" {
			place = k.license
		}
		if err := st.put(f, place); err != nil {
			return err
		}
	}
	for _, p := range []struct{ name, place string }{
		{"sluice-proxy.service", "/usr/lib/systemd/system/sluice-proxy.service"},
		{"proxy.yaml", "/usr/share/doc/sluice/proxy.yaml"},
		{"sluice-serve.service", "/usr/lib/systemd/system/sluice-serve.service"},
		{"serve.yaml", "/usr/share/doc/sluice/serve.yaml"},
		{"sluice-proxy.logrotate", "/etc/logrotate.d/sluice-proxy"},
		{"postinstall.sh", ""},
		{"preremove.sh", ""},
		{"postremove.sh", ""},
	} {
		f, err := b.packaging(p.name)
		if err != nil {
			return err
		}
		if err := st.put(f, p.place); err != nil {
			return err
		}
	}
	return nil
}

// put writes the file, and adds it to the package if it has a place there.
func (st *staging) put(f file, place string) error {
	if place != "" {
		kind := files.TypeFile
		if strings.HasPrefix(place, "/etc/") {
			kind = files.TypeConfigNoReplace // what the user has changed stays
		}
		st.contents = append(st.contents, &files.Content{
			Source: st.source(f.name), Destination: place, Type: kind,
			FileInfo: &files.ContentFileInfo{Mode: f.mode, MTime: st.release.at},
		})
	}
	return os.WriteFile(st.source(f.name), f.data, 0o600)
}
