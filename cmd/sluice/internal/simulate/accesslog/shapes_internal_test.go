package accesslog

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shapes are lines as servers write them: a request of 192.0.2.7 for /a on 23 September 2024 at 07:22 in Berlin, 120 ms long
// where the log says so.
var shapes = map[string]string{
	"nginx":          `192.0.2.7 - - [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 612 "-" "curl/8.5.0"`,
	"nginx, times":   `192.0.2.7 - alice [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 612 "-" "curl/8.5.0" rt=0.120 uct="0.000"`,
	"nginx, forward": `192.0.2.7, 10.0.0.3 - - [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 612 "-" "curl/8.5.0"`,
	"nginx, commas":  `192.0.2.7,10.0.0.3 - - [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 612 "-" "curl/8.5.0"`,
	"nginx, quoted":  `"192.0.2.7, 10.0.0.3" - - [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 612 "-" "curl/8.5.0"`,
	"nginx, after":   `192.0.2.7 - - [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" "example.com" 200 612 "-" "curl/8.5.0"`,
	"nginx, object":  `192.0.2.7 - - [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 612 "-" "curl/8.5.0" {"id":7}`,
	"nginx, host":    `192.0.2.7 - - [23/Sep/2024:07:22:00 +0200] "example.com" "GET /a HTTP/1.1" 200 612 "-" "curl/8.5.0"`,
	"ingress-nginx":  `192.0.2.7 - - [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 612 "-" "curl/8.5.0" 431 0.120 [default-web-80] [] 10.0.0.9:80 612 0.120 200 5d1`,
	"Apache":         `192.0.2.7 - frank [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 2326`,
	"Apache, vhost":  `example.com:80 192.0.2.7 - - [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 2326 "-" "Mozilla/5.0"`,
	"Apache, micros": `192.0.2.7 - - [23/Sep/2024:07:22:00.000001 +0200] "GET /a HTTP/1.1" 200 2326`,
	"Traefik":        `192.0.2.7 - - [23/Sep/2024:05:22:00 +0000] "GET /a HTTP/1.1" - - "-" "-" 1 "web@docker" "http://10.0.0.9:80" 12ms`,
	"Traefik, JSON":  `{"ClientAddr":"192.0.2.7:51000","ClientHost":"192.0.2.7","DownstreamStatus":200,"Duration":120000000,"RequestMethod":"GET","RequestPath":"/a","StartUTC":"2024-09-23T05:22:00Z","level":"info","msg":"","time":"2024-09-23T05:22:00Z"}`,
	"Caddy":          `{"level":"info","ts":1727068920,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.7","client_ip":"192.0.2.7","method":"GET","host":"example.com","uri":"/a"},"duration":0.12,"status":200}`,
	"Envoy":          `[2024-09-23T05:22:00.000Z] "GET /a HTTP/2" 200 - 154 0 120 100 "192.0.2.7" "curl/8.5.0" "cc21d9b0" "example.com" "tcp://10.0.2.1:80"`,
	"Istio":          `[2024-09-23T05:22:00.000Z] "GET /a HTTP/1.1" 200 - via_upstream - "-" 0 135 120 2 "-" "curl/8.5.0" "cc21d9b0" "httpbin:8000" "10.44.1.27:80" inbound|80|| 127.0.0.1:37854 10.44.1.27:80 192.0.2.7:37652 outbound_.8000_ default`,
	"pino":           `{"level":30,"time":1727068920000,"req":{"method":"GET","url":"/a","remoteAddress":"192.0.2.7"},"res":{"statusCode":200},"responseTime":120,"msg":"request completed"}`,
	"JSON, blank":    `{"time":1727068920,"client":"192.0.2.7","method":"GET","path":"/a"} `,
	"Envoy, JSON":    `{"authority":"httpbin:8000","downstream_remote_address":"192.0.2.7:37650","duration":120,"method":"GET","path":"/a","response_code":200,"start_time":"2024-09-23T05:22:00.000Z"}`,
	"HAProxy":        `192.0.2.7:33317 [23/Sep/2024:05:22:00.000] http-in static/srv1 10/0/30/69/120 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /a HTTP/1.1"`,
	"ALB":            `https 2024-09-23T05:22:00.120000Z app/lb/50dc 192.0.2.7:2817 10.0.0.1:80 0.000 0.120 0.000 200 200 0 57 "GET https://example.com:443/a HTTP/1.1" "curl/7.46.0" - - - "-" "example.com" "-" 1 2024-09-23T05:22:00.000000Z "forward" "-" "-"`,
	"S3":             `79a59df900b949e5 logs [23/Sep/2024:05:22:00 +0000] 192.0.2.7 79a59df900b949e5 3E57427F3EXAMPLE REST.GET.OBJECT a "GET /a HTTP/1.1" 200 - 113 113 120 5 "-" "S3Console/0.4" - s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/XV/VLi31234= SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader logs.s3.amazonaws.com TLSv1.2 - -`,
	"IIS":            "#Software: Microsoft Internet Information Services 10.0\n#Fields: date time s-ip cs-method cs-uri-stem c-ip cs(User-Agent) sc-status time-taken\n2024-09-23 05:22:00 10.0.0.1 GET /a 192.0.2.7 curl/8.5.0 200 120",
	"IIS, no date":   "#Date: 2024-09-23 00:00:00\n#Fields: time c-ip cs-method cs-uri-stem sc-status time-taken\n05:22:00 192.0.2.7 GET /a soon -",
	"IIS, quote":     "#Fields: date time cs-method cs-uri-stem cs-uri-query c-ip cs(User-Agent) sc-status\n2024-09-23 05:22:00 GET /a [x 192.0.2.7 \"curl 200", // clients choose what is in a line
	"W3C, quotes":    "#Fields: date time c-ip cs-method cs-uri-stem cs(User-Agent) sc-status\n2024-09-23 05:22:00 \"192.0.2.7\" GET /a \"Mozilla 5.0\" 200",
	"W3C, tabs":      "#Fields: date time c-ip cs-uri-query cs-method cs-uri-stem cs(User-Agent) sc-status\n2024-09-23\t05:22:00\t192.0.2.7\t\tGET\t/a\t\"Mozilla 5.0\t200",
	"CloudFront":     "#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status time-taken\n2024-09-23\t05:22:00\t192.0.2.7\tGET\t/a\t200\t0.120",
}

// wrappers are what collectors of logs put in front of a line.
var wrappers = map[string]string{
	"syslog":         "Sep 23 07:22:00 web1 nginx: ",
	"syslog, host":   "Sep  3 07:22:00 10.9.9.9 nginx[71]: ",
	"syslog, RFC":    "<190>1 2024-09-23T05:22:00.003Z web1 nginx 71 - - ",
	"syslog, data":   `<190>1 2024-09-23T05:22:00.003Z web1 nginx 71 ID47 [x@32473 iut="3" source="a b"] ` + "\ufeff",
	"syslog, <>":     "<190>Sep 23 07:22:00 web1 nginx: ",
	"rsyslog":        "2024-09-23T07:22:00.123456+02:00 web1 nginx[71]: ",
	"journal, ISO":   "2024-09-23T07:22:00+0200 web1 nginx[71]: ",
	"CRI":            "2024-09-23T05:22:00.123456789Z stdout F ",
	"Compose":        "web-1  | ",
	"Compose, times": "web-1  | 2024-09-23T05:22:00.123456789Z ",
	"Docker":         "2024-09-23T05:22:00.123456789Z ",
	"kubectl":        "[pod/web-7d9f/nginx] ",
	"none":           "",
}

// TestShapes: each shape is read as the same request, with each wrapper around its lines.
func TestShapes(t *testing.T) {
	local := time.Local
	time.Local = time.UTC // HAProxy's times have no zone
	t.Cleanup(func() { time.Local = local })
	at := time.Date(2024, 9, 23, 5, 22, 0, 0, time.UTC)
	for shape, text := range shapes {
		for wrapper, before := range wrappers {
			t.Run(shape+" by "+wrapper, func(t *testing.T) {
				l, err := New("")
				require.NoError(t, err)
				n := 0
				all := text + strings.Repeat("\n"+text[strings.LastIndexByte(text, '\n')+1:], 3)
				wrapped := before + strings.ReplaceAll(all, "\n", "\n"+before)
				for r := range l.Read(strings.NewReader(wrapped)) {
					n++
					assert.WithinDuration(t, at, time.Unix(0, r.At), time.Millisecond)
					assert.Equal(t, "192.0.2.7", Address(string(r.Client)).String(), string(r.Client))
					assert.Equal(t, "/a", string(r.Path))
					assert.Equal(t, "GET", string(r.Method))
					assert.Contains(t, []int64{0, 120e6}, r.Took)
					assert.Contains(t, []int{0, 200}, r.Status)
				}
				require.NoError(t, l.Err())
				assert.Equal(t, 1+3, n, wrapped)
			})
		}
	}
}

// TestLineInJSON: collectors also put a line into an object, which may have a time of its own.
func TestLineInJSON(t *testing.T) {
	const access, path = `192.0.2.7 - - [23/Sep/2024:07:22:00 +0200] \"GET /a HTTP/1.1\" 200 612`, `\"remote_addr\":\"192.0.2.7\",\"request_uri\":\"/a\"`
	for line, fields := range map[string]string{
		`{"log":"` + access + `\n","stream":"stdout","time":"2024-09-23T05:22:00.123Z"}`:                     "",
		`{"log":"{\"ts\":1727068920,` + path + `}\n","stream":"stdout","time":"2024-09-23T05:22:00.123Z"}`:   "",
		`{"log":"{\"time\":1727068920,` + path + `}\n","stream":"stdout","time":"2024-09-23T05:22:00.123Z"}`: "time=time",
		`{"@timestamp":"2024-09-23T05:22:00.123Z","message":"` + access + `"}`:                               "",
		`{"message":"GET /a","time":1727068920,"remote_addr":"192.0.2.7","request_uri":"/a","status":200}`:   "time=time",
	} {
		l, err := New(fields)
		require.NoError(t, err)
		n := 0
		for r := range l.Read(strings.NewReader(line + "\n" + line + "\n")) {
			n++
			assert.Equal(t, "192.0.2.7/a", string(r.Client)+string(r.Path), line)
			assert.Equal(t, int64(1727068920e9), r.At, line)
		}
		assert.Equal(t, 2, n, line)
	}
}

// TestClientIsAClient: a word before the time is the client only if it can be one.
func TestClientIsAClient(t *testing.T) {
	const rest = ` [23/Sep/2024:07:22:00 +0200] "GET /a HTTP/1.1" 200 612`
	for head, want := range map[string][3]string{
		"192.0.2.7 - -":                            {"192.0.2.7"},
		"192.0.2.7:8080 - -":                       {"192.0.2.7:8080"},
		"[2001:db8::1]:443 - -":                    {"[2001:db8::1]:443"},
		"host.example.com - -":                     {"host.example.com"},
		"Sep 23 07:22:00 web1 nginx: h.com -":      {"h.com"},
		"example.com h.example.org - -":            {"h.example.org", "", "example.com"},
		"example.com:80 192.0.2.7 - bob":           {"192.0.2.7", "bob", "example.com:80"},
		"198.51.100.9:80 192.0.2.7 - -":            {"192.0.2.7", "", "198.51.100.9:80"},
		"localhost 192.0.2.7 - -":                  {"192.0.2.7", "", "localhost"},
		"Sep 23 07:22:00 web1 nginx 192.0.2.7 - -": {"192.0.2.7"},
		"unknown, 192.0.2.7 - -":                   {"192.0.2.7"},
		"192.0.2.7 10.0.0.3 - -":                   {"192.0.2.7"},
		"- 192.0.2.7 - -":                          {"192.0.2.7"},
		"web 2024 x 192.0.2.7 - alice smith":       {"192.0.2.7", "alice smith"},
		"192.0.2.7 - [a":                           {"192.0.2.7", "[a"},
		`192.0.2.7 - "a b`:                         {"192.0.2.7", `"a b`},
		`192.0.2.7 - [a "b`:                        {"192.0.2.7", `[a "b`},
		"nginx: - - -":                             {""},
		"h ident bob":                              {"h", "bob"},
	} {
		l, err := New("")
		require.NoError(t, err)
		for r := range l.Read(strings.NewReader(head + rest)) {
			assert.Equal(t, want, [3]string{string(r.Client), string(r.User), string(r.Host)}, head)
		}
		assert.Equal(t, 1, l.Requests, head)
	}
	l, err := New("")
	require.NoError(t, err)
	for r := range l.Read(strings.NewReader(`{"time":1,"client":"alice smith"}`)) {
		assert.Equal(t, "alice smith", string(r.Client))
	}
	assert.Equal(t, 0, l.Lists, "no address is in it")
}
