package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
	"golang.org/x/tools/txtar"
)

const (
	tool    = "example.com/tools/cmd/tool"
	version = "v1.2.3-rc.1"
)

var at = time.Unix(1_700_000_000, 0).UTC()

// proxyOf makes a module proxy in a folder that has the modules of testdata/program.txtar.
func proxyOf(t *testing.T) string {
	t.Helper()
	files, err := txtar.ParseFile("testdata/program.txtar")
	require.NoError(t, err)
	source, proxy := t.TempDir(), t.TempDir()
	for _, f := range files.Files {
		write(t, filepath.Join(source, f.Name), f.Data)
	}
	for _, name := range []string{"cmd/tool", "Library"} {
		folder := filepath.Join(source, filepath.FromSlash(name))
		mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		require.NoError(t, err)
		var archive bytes.Buffer
		require.NoError(t, modzip.CreateFromDir(&archive, module.Version{Path: "example.com/tools/" + name, Version: version}, folder))
		escaped, err := module.EscapePath("example.com/tools/" + name)
		require.NoError(t, err)
		at := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
		write(t, filepath.Join(at, "list"), []byte(version+"\n"))
		write(t, filepath.Join(at, version+".info"), fmt.Appendf(nil, `{"Version":%q}`, version))
		write(t, filepath.Join(at, version+".mod"), mod)
		write(t, filepath.Join(at, version+".zip"), archive.Bytes())
	}
	return proxy
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o750))
	require.NoError(t, os.WriteFile(name, data, 0o600))
}

// makes has the packages of the program in testdata made, and returns their folder.
func makes(t *testing.T, proxy string, systems ...system) string {
	t.Helper()
	dir := t.TempDir()
	r := &release{module: tool, version: version, at: at, proxy: proxy, dir: dir, out: io.Discard, most: 10_000_000}
	require.NoError(t, r.make(t.Context(), systems))
	return dir
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range found {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		all[f.Name()] = string(data)
	}
	return all
}

func TestMake(t *testing.T) {
	dir := makes(t, proxyOf(t), system{"linux", "arm64"}, system{"windows", "amd64"})
	all := contents(t, dir)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	require.ElementsMatch(t, []string{
		"SHA256SUMS", "tool_1.2.3~rc.1-1_arm64.deb", "tool-1.2.3~rc.1-1.aarch64.rpm",
		"tool_1.2.3-rc.1_linux_arm64.tar.gz", "tool_1.2.3-rc.1_linux_arm64.cdx.json",
		"tool_1.2.3-rc.1_windows_amd64.zip", "tool_1.2.3-rc.1_windows_amd64.cdx.json",
	}, names)
	sums := all["SHA256SUMS"]
	assert.Equal(t, len(all)-1, strings.Count(sums, "\n"))
	for name, data := range all {
		if name != "SHA256SUMS" {
			assert.Contains(t, sums, fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(data)), name))
		}
	}

	linux := untar(t, all["tool_1.2.3-rc.1_linux_arm64.tar.gz"])
	const folder = "tool_1.2.3-rc.1_linux_arm64/"
	assert.Equal(t, "\x7fELF", linux[folder+"tool"][:4])
	assert.Equal(t, "As you like.\n", linux[folder+"LICENSE"])
	assert.Equal(t, "1.2.3-rc.1 1700000000\n", linux[folder+"man/tool.1"])
	assert.Equal(t, "example.com/tools/Library v1.2.3-rc.1, LICENSE.txt:\n\nAs others like.\n\n", linux[folder+"THIRD-PARTY-LICENSES"])
	assert.Equal(t, "[Service]\n", linux[folder+"sluice-proxy.service"])
	assert.Equal(t, "[Service]\n", linux[folder+"sluice-serve.service"])
	assert.Equal(t, "1.2.3-rc.1 1700000000\n", linux[folder+"man/tool.yaml.5"])
	assert.Len(t, linux, 11)
	windows := unzip(t, all["tool_1.2.3-rc.1_windows_amd64.zip"])
	assert.Equal(t, "MZ", windows["tool_1.2.3-rc.1_windows_amd64/tool.exe"][:2])
	assert.Len(t, windows, 9)

	bill := new(cyclonedx.BOM)
	require.NoError(t, json.Unmarshal([]byte(all["tool_1.2.3-rc.1_linux_arm64.cdx.json"]), bill))
	assert.Equal(t, "pkg:golang/"+tool+"@"+version, bill.Metadata.Component.PackageURL)
	assert.Equal(t, "std", (*bill.Components)[0].Name)
	assert.Equal(t, "example.com/tools/Library", (*bill.Components)[1].Name)
	assert.Empty(t, bill.SerialNumber)
	assert.Empty(t, bill.Metadata.Timestamp)
}

func untar(t *testing.T, data string) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(data))
	require.NoError(t, err)
	all := make(map[string]string)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		all[h.Name] = string(text)
		assert.True(t, at.Equal(h.ModTime))
		assert.Equal(t, strings.HasSuffix(h.Name, "/tool"), h.Mode&0o111 != 0, h.Name)
	}
}

func unzip(t *testing.T, data string) map[string]string {
	t.Helper()
	z, err := zip.NewReader(strings.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	all := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		all[f.Name] = string(text)
		assert.True(t, at.Equal(f.Modified))
	}
	return all
}

// The same version gives the same bytes, whenever and wherever it is built, and whatever the user has set for Go.
func TestMakeTwice(t *testing.T) {
	first := contents(t, makes(t, proxyOf(t), system{"linux", "amd64"}))
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // times in files are whole seconds
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "env"), []byte("GOPRIVATE=example.com\nGOBIN="+elsewhere+"\nGOARM64=v8.1\n"))
	for name, value := range map[string]string{
		"GOENV": filepath.Join(elsewhere, "env"), "GOAMD64": "v3", "TZ": "Asia/Kolkata",
		"GOFLAGS": "-tags=another", "LC_ALL": "tr_TR.UTF-8",
	} {
		t.Setenv(name, value)
	}
	second := contents(t, makes(t, proxyOf(t), system{"linux", "amd64"}))
	for name, data := range first {
		assert.Equal(t, sha256.Sum256([]byte(data)), sha256.Sum256([]byte(second[name])), name)
	}
	assert.Len(t, second, len(first))
	assert.Len(t, contents(t, elsewhere), 1, "nothing is installed for the user")
}

// What an earlier version has left would be published with this one.
func TestNotEmpty(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tool_1.2.2_linux_amd64.tar.gz"), nil)
	r := &release{module: tool, version: version, at: at, proxy: proxyOf(t), dir: dir, out: io.Discard, most: 10_000_000}
	require.ErrorContains(t, r.make(t.Context(), []system{{"linux", "amd64"}}), dir+" is not empty")
}

func TestTooLarge(t *testing.T) {
	var out bytes.Buffer
	r := &release{module: tool, version: version, at: at, proxy: proxyOf(t), dir: t.TempDir(), out: &out, most: 100_000}
	require.ErrorContains(t, r.make(t.Context(), []system{{"linux", "amd64"}}), "linux/amd64: tool has")
	assert.Contains(t, out.String(), "bytes  tool for linux/amd64, at most 100000\n")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"v1.0.0"}, {"-x", "v1.0.0", "dist"}, {"v1.0.0", "dist", "more"}} {
		require.ErrorIs(t, run(t.Context(), args, "1700000000", io.Discard), errUsage)
	}
	require.ErrorIs(t, run(t.Context(), []string{"v1.0.0", "dist"}, "", io.Discard), errUsage)
	require.ErrorContains(t, run(t.Context(), []string{"-only", "plan9/386", "v1.0.0", "dist"}, "1700000000", io.Discard), "want one of linux/amd64")
}
