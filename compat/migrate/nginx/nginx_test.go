package nginx_test

import (
	"fmt"
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

// Both servers serve the same requests. They count by the minute and by the second in this test, so that
// its own speed makes no difference.
func TestServers(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	nginx := installed(t)
	arrived, hold := make(chan struct{}, 10), make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/files/") {
			arrived <- struct{}{}
			<-hold
		}
	}))
	defer backend.Close()
	to := strings.TrimPrefix(backend.URL, "http://")

	before := freeAddress(t)
	file := edited(t, "nginx.conf", "127.0.0.1:8080", before, "127.0.0.1:9000", to, "10r/s", "1r/m", "5r/m", "1r/s",
		"http {", "http { access_log off;")
	start(t, exec.Command(nginx, "-p", filepath.Dir(file), "-c", file, "-g", quiet(file)+" daemon off; master_process off;"))

	after := freeAddress(t)
	file = edited(t, "limits.yaml", "127.0.0.1:8080", after, "127.0.0.1:9000", to, "10/s", "1/m", "5/m", "1/s")
	start(t, exec.Command(sluice(t), "proxy", "--config", file))

	servers := map[string]string{"nginx": "http://" + before, "sluice": "http://" + after}
	for name, url := range servers {
		require.Equal(t, map[int]int{200: 21, 429: 9}, statuses(t, url+"/api/", 30), "a burst, %s", name)
		require.Equal(t, map[int]int{200: 3, 503: 2}, statuses(t, url+"/login", 5), "one passes and two wait, %s", name)
	}
	for name, url := range servers {
		first := make(chan map[int]int)
		go func() { first <- statuses(t, url+"/files/a", 1) }()
		<-arrived
		require.Equal(t, map[int]int{503: 1}, statuses(t, url+"/files/b", 1), "one at once, %s", name)
		hold <- struct{}{}
		require.Equal(t, map[int]int{200: 1}, <-first, name)
	}
}

// statuses sends n requests at once and counts the statuses of the answers.
func statuses(t *testing.T, url string, n int) map[int]int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answers := make(chan int, n)
	for range n {
		go func() { answers <- status(t, client, url) }()
	}
	counts := map[int]int{}
	for range n {
		counts[<-answers]++
	}
	return counts
}

// status returns the status of the answer to a request, which it sends until the server listens.
func status(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.NewTimer(10 * time.Millisecond).C {
		response, err := client.Get(url)
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	return 0
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
