package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/settings"
	refstats "github.com/envoyproxy/ratelimit/src/stats"
	stats "github.com/lyft/gostats"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var sluice string // the command, built

func TestMain(m *testing.M) { os.Exit(built(m)) }

func built(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rls")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root, err := rootOf(context.Background())
	if err == nil {
		err = goBuild(context.Background(), filepath.Join(root, "cmd", "sluice"), dir, ".")
	}
	if err != nil {
		panic(err)
	}
	sluice = filepath.Join(dir, "sluice")
	return m.Run()
}

// reference returns the directory of the reference's module.
func reference(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/ratelimit").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// load is the reference's reading of files.
func load(files []string, merge bool) (c config.RateLimitConfig, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("%v", e)
		}
	}()
	all := make([]config.RateLimitConfigToLoad, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all[i] = config.RateLimitConfigToLoad{Name: filepath.Base(file), ConfigYaml: config.ConfigFileContentToYaml(filepath.Base(file), string(text))}
	}
	store := stats.NewStore(stats.NewNullSink(), false)
	return config.NewRateLimitConfigImpl(all, refstats.NewStatManager(store, settings.NewSettings()), merge), nil
}

// check is our reading of files: what sluice serve --check says of errors.
func check(ctx context.Context, files []string, merge bool) error {
	args := []string{"serve", "--check"}
	for _, f := range files {
		args = append(args, "--config", f)
	}
	if merge {
		args = append(args, "--merge")
	}
	out, err := exec.CommandContext(ctx, sluice, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s%w", out, err)
	}
	return nil
}

// serves starts sluice serve and returns its address.
func serves(t *testing.T, file string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	c := exec.CommandContext(t.Context(), sluice, "serve", "--config", file, "--listen", address)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	require.NoError(t, waitFor(t.Context(), "tcp", address))
	return address
}

// TestVerdicts: every configuration file of the reference's tests and examples gets the same verdict, with the reference's reason.
func TestVerdicts(t *testing.T) {
	tests := filepath.Join(reference(t), "test", "config")
	in := func(names ...string) []string {
		for i, name := range names {
			names[i] = filepath.Join(tests, name)
		}
		return names
	}
	var cases [][]string
	for _, pattern := range []string{"test/config/*.yaml", "examples/ratelimit/config/*.yaml", "integration-test/*/*.yaml", "test/integration/runtime/*/*/*/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(reference(t), filepath.FromSlash(pattern)))
		require.NoError(t, err)
		for _, f := range files {
			cases = append(cases, []string{f})
		}
	}
	require.Greater(t, len(cases), 20)
	cases = append(cases, in("basic_config.yaml", "duplicate_domain.yaml"), in("merge_domain_key1.yaml", "merge_domain_key2.yaml"),
		in("merge_domain_key1.yaml", "merge_domain_key1.yaml"))
	accepted, rejected := 0, 0
	for _, files := range cases {
		for _, merge := range []bool{false, true} {
			_, theirs := load(files, merge)
			ours := check(t.Context(), files, merge)
			assert.Equal(t, theirs == nil, ours == nil, "%v, merge %v: %v; %v", files, merge, theirs, ours)
			if theirs == nil {
				accepted++
				continue
			}
			rejected++
			if ours == nil {
				continue
			}
			_, reason, _ := strings.Cut(theirs.Error(), ": ")
			reason = strings.TrimSuffix(strings.TrimPrefix(reason, "config error, yaml file contains list of type other than map: "), "a")
			if _, syntax, ok := strings.Cut(reason, "found "); ok {
				reason = syntax
			}
			assert.Contains(t, ours.Error(), reason)
			assert.Regexp(t, `^[^\n]*\.yaml:\d+:\d+: `, ours.Error(), "the place")
		}
	}
	t.Logf("%d accepted, %d rejected", accepted, rejected)
}

// TestLookups: a descriptor has the same limit. The key midWild is left out, because it cannot be compared: in this version of
// the reference only a * at the end of a value is a wildcard, and it takes any other * literally. It is the latest version that
// the module proxy has; later ones, which are not tagged, take each * for a wildcard, as sluice serve does (TestMatch of its rules).
func TestLookups(t *testing.T) {
	values := []string{
		"", "value1", "value2", "value3", "value5", "subvalue1", "subvalue5", "something", "foo", "foobar", "goo1", "bar1b", "bar*b", "val1", "files/a",
		"nested/x", "top/a", "parent", "api/v1", "svc/a", "path/a", "file/a", "user/a", "res/a", "test1", "test2", "test",
	}
	keys := []string{
		"key1", "subkey1", "key2", "key3", "key4", "key5", "subkey5", "key6", "key7", "wild", "noWild", "noVal", "nestedWild", "files",
		"nested", "route", "method", "service", "endpoint", "path", "file", "type", "user", "resource", "action",
	}
	compared, limited := 0, 0
	for _, name := range []string{"basic_config.yaml", "shadowmode_config.yaml", "wildcard.yaml", "share_threshold.yaml"} {
		file := filepath.Join(reference(t), "test", "config", name)
		theirs, err := load([]string{file}, false)
		require.NoError(t, err)
		conn, err := grpc.NewClient(serves(t, file), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		ours := ratelimit.NewRateLimitServiceClient(conn)
		var batch []*envoy.RateLimitDescriptor
		compare := func() {
			r, err := ours.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "test-domain", Descriptors: batch})
			require.NoError(t, err)
			for i, d := range batch {
				want, got := theirs.GetLimit(t.Context(), "test-domain", d), r.GetStatuses()[i]
				compared++
				switch {
				case want == nil:
					assert.Nil(t, got.GetCurrentLimit(), "%v", d)
					continue
				case want.Unlimited:
					assert.Equal(t, uint32(1<<32-1), got.GetLimitRemaining(), "%v", d)
				default:
					assert.Equal(t, want.Limit.GetRequestsPerUnit(), got.GetCurrentLimit().GetRequestsPerUnit(), "%v", d)
					assert.Equal(t, want.Limit.GetUnit(), got.GetCurrentLimit().GetUnit(), "%v", d)
					assert.Equal(t, want.Limit.GetName(), got.GetCurrentLimit().GetName(), "%v", d)
				}
				limited++
			}
			batch = batch[:0]
		}
		check := func(entries ...*envoy.RateLimitDescriptor_Entry) {
			batch = append(batch, &envoy.RateLimitDescriptor{Entries: entries, HitsAddend: wrapperspb.UInt64(0)})
			if len(batch) == 1000 {
				compare()
			}
		}
		entry := func(key, value string) *envoy.RateLimitDescriptor_Entry {
			return &envoy.RateLimitDescriptor_Entry{Key: key, Value: value}
		}
		for _, key := range keys {
			for _, value := range values {
				check(entry(key, value))
				for _, below := range keys {
					for _, v := range values {
						check(entry(key, value), entry(below, v))
					}
				}
			}
		}
		for _, path := range [][]string{{"path", "path/a", "file", "file/b", "type", "x"}, {"user", "user/a", "resource", "res/b", "action", "x"}} {
			check(entry(path[0], path[1]), entry(path[2], path[3]), entry(path[4], path[5]))
		}
		compare()
		require.NoError(t, conn.Close())
	}
	t.Logf("%d compared, %d with a limit", compared, limited)
	assert.Greater(t, limited, 100)
}

// TestClient: the reference's own client gets responses.
func TestClient(t *testing.T) {
	client := filepath.Join(t.TempDir(), "client")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", client, "github.com/envoyproxy/ratelimit/src/client_cmd").CombinedOutput()
	require.NoError(t, err, string(out))
	file := filepath.Join(t.TempDir(), "shop.yaml")
	const rules = "domain: shop\ndescriptors:\n- {key: user, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 2}}"
	require.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	address := serves(t, file)
	asks := func(ctx context.Context, args ...string) string {
		out, err := exec.CommandContext(ctx, client, append([]string{"-dial_string", address}, args...)...).CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return strings.Join(strings.Fields(string(out)), " ")
	}
	for i := range 4 {
		want := "overall_code:OK"
		if i >= 2 {
			want = "overall_code:OVER_LIMIT"
		}
		assert.Contains(t, asks(t.Context(), "-domain", "shop", "-descriptors", "user=ann"), want)
	}
	assert.Contains(t, asks(t.Context(), "-domain", "", "-descriptors", "user=ann"), "rate limit domain must not be empty")
}
