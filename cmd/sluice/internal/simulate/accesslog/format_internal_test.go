package accesslog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAccessLog(t *testing.T) {
	at := time.Date(2000, 10, 10, 20, 55, 36, 0, time.UTC).UnixNano()
	for _, test := range []struct {
		line string
		want Record // its texts
		ok   bool
	}{
		{
			`127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.0" 200 2326 "http://x/" "Mozilla/4.08 [en]"`,
			Record{At: at, Status: 200, Client: []byte("127.0.0.1"), User: []byte("frank"), Method: []byte("GET"), Path: []byte("/a?b"), Referer: []byte("http://x/"), Agent: []byte("Mozilla/4.08 [en]")},
			true,
		},
		{
			`::1 - - [10/Oct/2000:13:55:36 -0700] "POST /x HTTP/2.0" 404 -`,
			Record{At: at, Status: 404, Client: []byte("::1"), Method: []byte("POST"), Path: []byte("/x")},
			true,
		},
		{
			`h - - [10/Oct/2000:20:55:36 +0000] "GET /a\"b HTTP/1.1" 500 0 "-" "say \"hi\""`,
			Record{At: at, Status: 500, Client: []byte("h"), Method: []byte("GET"), Path: []byte(`/a\"b`), Agent: []byte(`say \"hi\"`)},
			true,
		},
		{
			`h - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "at=1" at=971211336.250000 took=1.500000 policy=a`,
			Record{At: at + 250e6, Took: 1500e6, Status: 200, Client: []byte("h"), Method: []byte("GET"), Path: []byte("/"), Agent: []byte("at=1")},
			true,
		},
		{
			`h - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-" at=971211338 took=soon`,
			Record{At: at, Status: 200, Client: []byte("h"), Method: []byte("GET"), Path: []byte("/")},
			true,
		},
		{`h - - [10/Oct/2000:20:55:36 +0000] "-" 400 0`, Record{At: at, Status: 400, Client: []byte("h")}, true},
		{`h - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" - 1`, Record{At: at, Client: []byte("h"), Method: []byte("GET"), Path: []byte("/")}, true},
		{line: ``},
		{line: `h`},
		{line: `h - - [yesterday] "GET / HTTP/1.1" 200 1`},
		{line: `h - - [10/Oct/2000:20:55:99 +0000] "GET / HTTP/1.1" 200 1`},
		{line: `h - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1 200 1`},
		{line: `h - - [10/Oct/2000:20:55:36 +0000] "started" many 1`},
		{line: `h - - 10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`},
	} {
		t.Run(test.line, func(t *testing.T) {
			var p accessLog
			var r Record
			if ok := p.parse([]byte(test.line), &r); assert.Equal(t, test.ok, ok) && ok {
				assert.Equal(t, test.want, r)
			}
		})
	}
}

// TestFormats parses a line of each other format, after the lines before it.
func TestFormats(t *testing.T) {
	at := time.Date(2018, 7, 2, 22, 23, 1, 0, time.UTC).UnixNano()
	for _, test := range []struct {
		name, before, line string
		want               Record
	}{
		{
			"virtual host", "", `example.com:443 ::1 - - [02/Jul/2018:22:23:01 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl"`,
			Record{At: at, Status: 200, Client: []byte("::1"), Host: []byte("example.com:443"), Method: []byte("GET"), Path: []byte("/a"), Agent: []byte("curl")},
		},
		{
			"virtual host without port", "", `example.com 192.0.2.1 - alice smith [02/Jul/2018:22:23:01 +0000] "GET /a HTTP/1.1" 200 5`,
			Record{At: at, Status: 200, Client: []byte("192.0.2.1"), User: []byte("alice smith"), Host: []byte("example.com"), Method: []byte("GET"), Path: []byte("/a")},
		},
		{
			"user with a space", "", `::1 - alice smith [02/Jul/2018:22:23:01 +0000] "GET /a HTTP/1.1" 200 5`,
			Record{At: at, Status: 200, Client: []byte("::1"), User: []byte("alice smith"), Method: []byte("GET"), Path: []byte("/a")},
		},
		{
			"HAProxy", "", `2001:db8::1:33317 [02/Jul/2018:22:23:01.000] in be/srv 10/0/30/69/+109 -1 2750 - - ---- 1/1/1/1/0 0/0 "GET https://example.com:443/a?b HTTP/2.0"`,
			Record{At: at, Took: 109e6, Client: []byte("2001:db8::1"), Host: []byte("example.com"), Method: []byte("GET"), Path: []byte("/a?b")},
		},
		{
			"ALB", "", `h2 2018-07-02T22:23:03Z app/x 192.0.2.1:2817 10.0.0.1:80 0.5 1 0.25 200 200 0 57 "GET https://www.example.com:443 HTTP/2.0" "say \"hi\"" - - - "-" "tls.example.com" "-" 1 2018-07-02T22:23:01Z "forward"`,
			Record{At: at, Took: 175e7, Status: 200, Client: []byte("192.0.2.1"), Host: []byte("tls.example.com"), Method: []byte("GET"), Path: []byte("/"), Agent: []byte(`say \"hi\"`)},
		},
		{
			"S3", "", `79a59d logs [02/Jul/2018:22:23:01 +0000] 192.0.2.1 79a59d 3E57 REST.GET.OBJECT a "GET /a HTTP/1.1" 200 - 113 113 109 5 "http://x/" "agent 7" - s9lz SigV4 - - logs.example.com TLSV1.2`,
			Record{
				At: at, Took: 109e6, Status: 200, Client: []byte("192.0.2.1"), User: []byte("79a59d"), Host: []byte("logs.example.com"),
				Method: []byte("GET"), Path: []byte("/a"), Referer: []byte("http://x/"), Agent: []byte("agent 7"),
			},
		},
		{
			"Classic Load Balancer", "", `2018-07-02T22:23:01Z elb [2001:db8::1]:2817 - -1 -1 -1 503 0 0 57 "GET http://example.com:80/a HTTP/1.1" "-" - -`,
			Record{At: at, Status: 503, Client: []byte("2001:db8::1"), Host: []byte("example.com"), Method: []byte("GET"), Path: []byte("/a")},
		},
		{
			"CloudFront", "#Fields: date time c-ip cs(Host) x-host-header cs-uri-stem sc-status time-taken",
			"2018-07-02\t22:23:01\t192.0.2.1\td1.cloudfront.net\texample.com\t/a\t200\t1.5",
			Record{At: at, Took: 15e8, Status: 200, Client: []byte("192.0.2.1"), Host: []byte("example.com"), Path: []byte("/a"), Unit: time.Second},
		},
		{
			"IIS", "#Fields: date time cs-method cs-uri-stem cs-username c-ip cs(User-Agent) cs(Referer) sc-status time-taken",
			"2018-07-02 22:23:01 GET /a - 192.0.2.1 a+b - 404 1500",
			Record{At: at, Took: 15e8, Status: 404, Client: []byte("192.0.2.1"), Method: []byte("GET"), Path: []byte("/a"), Agent: []byte("a+b"), Unit: time.Millisecond},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			local := time.Local
			time.Local = time.UTC // HAProxy's times have no zone
			t.Cleanup(func() { time.Local = local })
			j, err := newJSONLines("")
			require.NoError(t, err)
			d := newDetector(j, textFormats()...)
			var r Record
			if test.before != "" {
				require.False(t, d.parse([]byte(test.before), &r))
			}
			require.True(t, d.parse([]byte(test.line), &r))
			assert.Equal(t, test.want, r)
		})
	}
}

func TestJSONLines(t *testing.T) {
	at := time.Date(2025, 6, 1, 12, 0, 0, 500_000_000, time.UTC).UnixNano()
	for _, test := range []struct {
		line, fields string
		at, took     int64
		key          string
		ok           bool
	}{
		{`{"time":"2025-06-01T12:00:00.5Z","duration":0.25,"key":"a"}`, "", at, 250e6, "a", true},
		{`{"ts":1748779200.5,"client":"b","took":"30ms"}`, "time=ts,key=client,duration=took", at, 30e6, "b", true},
		{`{"ts":1748779200500,"u":{"id":7}}`, "time=ts,key=u.id", at, 0, "7", true},
		{`{"ts":"1748779200.5"}`, "time=ts", at, 0, "", true},
		{`{"ts":"2025-06-01 12:00:00.5"}`, "time=ts", at, 0, "", true},
		{`{"time":2,"time":3,"key":"a","key":"b"}`, "", 2e9, 0, "a", true},
		{`{"t":2,"a":{"b.c":"x"}}`, `time=t,duration=t,key=a.b\.c`, 2e9, 2e9, "x", true},
		{`{"t\u0069me":2,"key":"\u00e9"}`, "", 2e9, 0, "\u00e9", true},
		{`{"t":1748779200500000,"took":30}`, "time=t,duration=took:ms", at, 30e6, "", true},
		{`{"t":1748779200500000000,"took":"30"}`, "time=t,duration=took:us", at, 30e3, "", true},
		{`{"time":1,"StartUTC":"2025-06-01T12:00:00.5Z","Duration":30000000}`, "", at, 30e6, "", true},
		{`{"ts":1748779200.5,"request":{"duration":7},"duration":0.25,"status":200}`, "", at, 250e6, "", true},
		{`{"ts":1748779200.5,"duration":null,"key":"-"}`, "", at, 0, "", true},
		{`{"time":"soon"}`, "", 0, 0, "", false},
		{`{"other":1}`, "", 0, 0, "", false},
		{`{"time":1,"duration":-1}`, "", 1e9, 0, "", true},
		{`{"time":1,"duration":"long"}`, "", 1e9, 0, "", true},
		{`{"time":1,"duration":"0.01, 0.02","status":"-"}`, "", 1e9, 0, "", true},
		{`{"time":1,"cpu":0.5}`, "", 0, 0, "", false},
		{`{"time":1,"cpu":0.5}`, "time=time", 1e9, 0, "", true},
		{`{"time":1,"level":"info","msg":"started"}`, "time=time", 0, 0, "", false},
		{`{"time":1,"level":"info","msg":"read","path":"/etc/app.yaml"}`, "", 0, 0, "", false},
		{`{"time":1,"level":"info","msg":"","RequestMethod":"GET"}`, "", 1e9, 0, "", true},
		{`{"start_time":"2025-06-01T12:00:00.5Z","duration":250,"response_code":200}`, "", at, 250e6, "", true},
		{`{"start_time":"2025-06-01T12:00:00.5Z","duration":"250","authority":"a","response_flags":"-","method":"GET"}`, "", at, 250e6, "", true},
		{`{"ts":"2025/06/01 12:00:00.5","request":{"method":"GET"}}`, "", at, 0, "", true},
		{`{"ts":"2025-06-01T14:00:00.500+0200","request":"GET /a HTTP/1.1"}`, "", at, 0, "", true},
		{`{"time":1e300}`, "", 0, 0, "", false},
		{`{"time":1`, "", 0, 0, "", false},
		{`[1]`, "", 0, 0, "", false},
	} {
		t.Run(test.line, func(t *testing.T) {
			p, err := newJSONLines(test.fields)
			assert.NoError(t, err)
			var r Record
			if ok := p.parse([]byte(test.line), &r); assert.Equal(t, test.ok, ok) && ok {
				assert.Equal(t, []any{test.at, test.took, test.key}, []any{r.At, r.Took, string(r.Key)})
			}
		})
	}
}

// TestFormatIsDetected: by the first line that is a request, whatever comes before it.
func TestFormatIsDetected(t *testing.T) {
	access := `h - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`
	for _, test := range []struct {
		lines []string
		read  int
	}{
		{[]string{access, `{"time":1}`, access}, 2},
		{[]string{`{"time":1}`, access, `{"time":2}`}, 2},
		{[]string{"# comment", `{"time":"soon"}`, ` {"time":1}`, `{"time":2}`, access}, 2},
		{[]string{`{"msg":"started"}`, access, access}, 2},
		{[]string{"", "nonsense"}, 0},
	} {
		j, err := newJSONLines("")
		assert.NoError(t, err)
		e, read := newDetector(j, textFormats()...), 0
		for _, line := range test.lines {
			if e.parse([]byte(line), new(Record)) {
				read++
			}
		}
		assert.Equal(t, test.read, read, "%q", test.lines)
	}
}

// TestNoFormat: a line that is not a request is not one in any format.
func TestNoFormat(t *testing.T) {
	j, err := newJSONLines("")
	require.NoError(t, err)
	d := newDetector(j, textFormats()...)
	for _, line := range []string{
		"",
		"#Fields: date time",
		"2018-07-02",                    // a column too few
		"2018-07-02 22:23:01 192.0.2.1", // and one too many
		`2018-07-02T22:23:01Z INFO server: a b c d e f g h i "GET / HTTP/1.1" j k`,
		`https 2018-07-02T22:23:01Z app/x 192.0.2.1:2817`,
		`192.0.2.1:33317 [02/Jul/2018:22:23:01.000] in be/srv 10/0/109 200 2750 -- "GET / HTTP/1.1"`, // HAProxy, TCP
		`192.0.2.1:33317 [02/Jul/2018:22:23:01.000] in be/srv 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0`,
		`[02/Jul/2018:22:23:01 +0000] "GET / HTTP/1.1" 200 5`,
	} {
		assert.False(t, d.parse([]byte(line), new(Record)), line)
	}
}

// FuzzFormats parses any line twice in each format, to the same record.
func FuzzFormats(f *testing.F) {
	f.Add([]byte(`127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.0" 200 2326 "http://x/" "Mozilla/4.08 [en]"`))
	f.Add([]byte(`h - - [10/Oct/2000:20:55:36 +0000] "GET /a\"b`))
	for _, line := range []string{
		`{"time":1748779200.5,"client":"b"}`,
		`192.0.2.7 - - [21/Nov/2026:06:25:24 +0000] "GET /robots.txt HTTP/1.1" 404 162 "-" "Mozilla/5.0 (compatible; bot/2.1; +http://example.com/bot)"`,
		`192.0.2.7 - - [21/Nov/2026:06:25:24 +0000] "\x16\x03\x01\x00\xEE" 400 166 "-" "-"`,
		`2001:db8::1 - alice smith [29/Feb/2024:23:59:60 +0530] "CONNECT example.com:443 HTTP/1.1" 405 - "" ""`,
		`example.com:443 192.0.2.7 - - [21/Nov/2026:06:25:24 +0000] "GET / HTTP/1.1" 200 5316 "-" "curl/7.88.1" 0.012`,
		`{"level":"info","ts":1763706324.512,"logger":"http.log.access","request":{"remote_ip":"192.0.2.7","method":"GET","host":"example.com","uri":"/a?b=c"},"duration":0.0123,"status":200}`,
		`{"time":"2026-11-21T06:25:24.123456789+01:00","duration":"1h2m3.5s","status":"200","key":null,"path":["a"]}`,
		`{"time":1763706324512,"duration":1e-9}`,
		`Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`,
		`https 2018-07-02T22:23:00.186641Z app/x 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/7.46.0" - - - "-" "-" "-" 1 2018-07-02T22:22:48.364000Z "forward"`,
		"#Fields: date time c-ip time-taken",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		j, err := newJSONLines("")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range newDetector(j, textFormats()...).candidates {
			var first, again Record
			ok := p.parse(line, &first)
			if ok != p.parse(line, &again) {
				t.Fatal("once parsed, once not")
			}
			if ok {
				assert.Equal(t, first, again)
			}
		}
	})
}
