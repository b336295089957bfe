package server

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// FuzzLoad: whatever the file, there is a proxy, or each line that is said has a place.
func FuzzLoad(f *testing.F) {
	const start = "listen: 127.0.0.1:0\nto: http://127.0.0.1:9000\n"
	for _, text := range []string{
		start,
		start + "global: {limit: concurrency 500 queue 200 newest-first, status: 503, max-wait: 2s}\n",
		start + "policies: {api: {key: ip, limit: 100/s burst 200}, b: {key: 'header:A', limits: [10/h, concurrency 1], download: 2MiB/s}}\nroutes: {/: [api, b]}\n",
		start + "redis: redis://127.0.0.1:1/0\npolicies: {a: {key: host, limit: sliding 5/1m segments 5}, b: {key: pattern, limit: fixed 1/d, upload: 9EiB/s}}\n",
		start + "redis: 'redis://127.0.0.1:1/x?y=z'\nglobal: {limit: concurrency 9223372036854775807}\n",
		start + "global: {key: host, limit: 9223372036854775807/ns burst 9223372036854775807}\n",
		start + "tls: {cert: /dev/null, key: /dev/null}\n",
		start + "policies: {a: {key: [ip, 'header:A', path:2], limits: [9/s, sliding 9/1m], cost: 3, settle: X-Cost, shadow: true, overrides: {10.0.0.0/8: {a: {b: unlimited}}, 192.0.2.1: 5/s}}}\nroutes: {/a: a, /: []}\n",
		start + "policies: {a: {key: pattern, limit: 1/s, overrides: {/a: concurrency 9007199254740993}}}\nroutes: {/a: a}\nredis: redis://127.0.0.1:1/0\n",
		"---\r\nlisten: :8080\r\nto: http://h:1\r\nroutes:\r\n  /: []\r\n...\r\n",
		"\ufefflisten: ':80'\nto: http://h\n",
		"{listen: ':80', to: http://h, policies: {a: {limit: 1/s}}, routes: {/: a}}",
		"listen: !!str 80\nto: !!binary aGk=\n<<: {admin: ':1'}\n",
		"listen: |\n  :80\nto: ~\nglobal: null\n",
	} {
		f.Add(text)
	}
	place := regexp.MustCompile(`^limits\.yaml:[1-9][0-9]*:[1-9][0-9]*: .`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "/dev/") && text != start+"tls: {cert: /dev/null, key: /dev/null}\n" || strings.Contains(text, "/proc") {
			t.Skip("files that may not end")
		}
		t.Chdir(t.TempDir())
		if err := os.WriteFile("limits.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := New("limits.yaml", t.Logf)
		defer p.Close() //nolint:staticcheck // there is a proxy with an error, too
		if err == nil {
			return
		}
		for line := range bytes.SplitSeq([]byte(err.Error()), []byte("\n")) {
			if !place.Match(line) {
				t.Errorf("%q has no place, of %q", line, err)
			}
		}
	})
}
