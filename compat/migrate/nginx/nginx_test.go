package nginx_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The configuration after is valid, and so is the one before, where nginx is installed.
func TestValid(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), sluice(t), "proxy", "--config", "limits.yaml", "--check").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "limits.yaml: ok\n", string(out))

	nginx := installed(t)
	file := edited(t, "nginx.conf", "127.0.0.1:8080", freeAddress(t))
	out, err = exec.CommandContext(t.Context(), nginx, "-t", "-p", filepath.Dir(file), "-c", file, "-g", quiet(file)).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Of thirty requests at once both serve the same number. They count by the minute in this test, so that
// no permit comes back meanwhile.
func TestBurst(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	nginx := installed(t)
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	to := strings.TrimPrefix(backend.URL, "http://")

	before := freeAddress(t)
	file := edited(t, "nginx.conf", "127.0.0.1:8080", before, "127.0.0.1:9000", to, "10r/s", "1r/m")
	start(t, exec.Command(nginx, "-p", filepath.Dir(file), "-c", file, "-g", quiet(file)+" daemon off; master_process off;"))

	after := freeAddress(t)
	file = edited(t, "limits.yaml", "127.0.0.1:8080", after, "127.0.0.1:9000", to, "10/s", "1/m")
	start(t, exec.Command(sluice(t), "proxy", "--config", file))

	for name, address := range map[string]string{"nginx": before, "sluice": after} {
		client := &http.Client{Transport: &http.Transport{}}
		served := statuses(t, client, "http://"+address+"/api/", 30)
		client.CloseIdleConnections()
		require.Equal(t, map[int]int{http.StatusOK: 21, http.StatusTooManyRequests: 9}, served, name)
	}
}

// statuses counts the statuses of n answers.
func statuses(t *testing.T, client *http.Client, url string, n int) map[int]int {
	t.Helper()
	counts := map[int]int{}
	for range n {
		var response *http.Response
		require.Eventually(t, func() bool { // until the server listens
			var err error
			response, err = client.Get(url)
			return err == nil
		}, time.Minute, 10*time.Millisecond)
		_, err := io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		counts[response.StatusCode]++
	}
	return counts
}

// sluice builds the command, and returns where it is.
func sluice(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "sluice")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../../cmd/sluice"
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// installed returns where nginx is. The gate installs it.
func installed(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("nginx is not installed")
	return ""
}

// edited returns a copy of a file, in a folder of its own, with parts replaced.
func edited(t *testing.T, name string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for i := 0; i < len(replace); i += 2 {
		require.Contains(t, string(text), replace[i])
	}
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600))
	return file
}

// quiet are directives that keep nginx's files in the folder of the configuration.
func quiet(file string) string {
	dir := filepath.Dir(file)
	return fmt.Sprintf("pid %s/pid; error_log %s/error.log;", dir, dir)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// start runs a server until the test ends.
func start(t *testing.T, server *exec.Cmd) {
	t.Helper()
	var out strings.Builder
	server.Stdout, server.Stderr = &out, &out
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		_ = server.Wait()
		if t.Failed() {
			t.Logf("%s", out.String())
		}
	})
}
