package accesslog_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/accesslog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func entry(path string) accesslog.Entry {
	return accesslog.Entry{
		Request: httptest.NewRequest(http.MethodGet, path, nil), Client: "192.0.2.1", Start: time.Unix(1e9, 0).UTC(), Status: 200, Bytes: 5,
	}
}

// TestLines: what was written before Close is in the file, in its order.
func TestLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	l, err := accesslog.Open(name, config.CombinedLog, t.Logf)
	require.NoError(t, err)
	l.Write(entry("/a"))
	l.Write(entry(`/b?"`))
	l.Close()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	const before = `192.0.2.1 - - [09/Sep/2001:01:46:40 +0000] "GET `
	assert.Equal(t, before+`/a HTTP/1.1" 200 5 "-" "-"`+"\n"+before+`/b?\x22 HTTP/1.1" 200 5 "-" "-"`+"\n", string(text))
}

// TestLostLines: lines that cannot be written are counted and reported with the reason, those after a report at the end.
func TestLostLines(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("NOT TESTED: there is no /dev/full")
	}
	var mu sync.Mutex
	var said strings.Builder
	text := func() string {
		mu.Lock()
		defer mu.Unlock()
		return said.String()
	}
	l, err := accesslog.Open("/dev/full", config.JSONLog, func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(&said, format+"\n", args...)
	})
	require.NoError(t, err)
	const lost = "access log /dev/full: lost 1 lines: no space left on device; 0 lines are waiting to be written\n"
	l.Write(entry("/"))
	require.Eventually(t, func() bool { return text() == lost }, time.Minute, time.Millisecond)
	l.Write(entry("/"))
	l.Close()
	assert.Equal(t, lost+lost, text())
}
