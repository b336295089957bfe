package playground

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRun prints the URL, opens it, serves the page, and ends with its context.
func TestRun(t *testing.T) {
	log := filepath.Join(t.TempDir(), "a&b.log")
	require.NoError(t, os.WriteFile(log, []byte("one\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	visited := ""
	err := run(ctx, "127.0.0.1:0", "", log, &out, func(page string) {
		defer cancel()
		visited = page
		home, _, _ := strings.Cut(page, "#")
		r, err := http.Get(home)
		if assert.NoError(t, err) {
			b, _ := io.ReadAll(r.Body)
			_ = r.Body.Close()
			assert.Contains(t, string(b), "<!DOCTYPE html>")
		}
	})
	assert.NoError(t, err)
	assert.Equal(t, visited+"\n", out.String())
	assert.Contains(t, visited, "/#log=a%26b.log&served=1")
}

// TestTaken: if the usual address is taken the page is elsewhere; an address that was asked for is an error then.
func TestTaken(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	taken := l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	visited := ""
	require.NoError(t, run(ctx, taken, "127.0.0.1:0", "", io.Discard, func(page string) { visited = page; cancel() }))
	assert.Contains(t, visited, "http://127.0.0.1:")
	assert.NotContains(t, visited, taken)
	assert.Error(t, run(t.Context(), taken, "", "", io.Discard, func(string) { t.Error("it is open") }))
}

func TestPageOf(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80/", "0.0.0.0:80": "http://127.0.0.1:80/", "[::]:80": "http://127.0.0.1:80/", "[::1]:80": "http://[::1]:80/",
	} {
		a, err := net.ResolveTCPAddr("tcp", address)
		require.NoError(t, err)
		assert.Equal(t, want, pageOf(a, ""))
	}
}

// TestRunFails on a log that is not there, and on an address that is none.
func TestRunFails(t *testing.T) {
	visit := func(string) { t.Error("it is open") }
	assert.ErrorIs(t, run(t.Context(), "127.0.0.1:0", "", filepath.Join(t.TempDir(), "no.log"), io.Discard, visit), os.ErrNotExist)
	assert.Error(t, run(t.Context(), "127.0.0.1:http:", "", "", io.Discard, visit))
}
