package accesslog

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// describe lists the fields that a record has.
func describe(r *Record) string {
	var parts []string
	add := func(name, value string, known bool) {
		if known {
			parts = append(parts, name+" "+value)
		}
	}
	add("client", string(r.Client), r.Client != nil)
	add("user", string(r.User), r.User != nil)
	add("host", string(r.Host), r.Host != nil)
	add("asks", string(r.Method)+" "+string(r.Path), r.Method != nil || r.Path != nil)
	add("status", strconv.Itoa(r.Status), r.Status != 0)
	add("after", time.Duration(r.At-day).String(), r.At != day)
	add("took", time.Duration(r.Took).String(), r.Took != 0)
	add("in", r.Unit.String(), r.Unit != 0)
	add("referer", string(r.Referer), r.Referer != nil)
	add("agent", string(r.Agent), r.Agent != nil)
	return strings.Join(parts, ", ")
}

// day is the time of the lines below, in nanoseconds.
var day = time.Date(2018, 7, 2, 22, 23, 1, 0, time.UTC).UnixNano()

// TestFormats parses a line of each format; "" is no request.
func TestFormats(t *testing.T) {
	local := time.Local
	time.Local = time.UTC // HAProxy's times have no zone
	t.Cleanup(func() { time.Local = local })
	columns := "" // of the lines in W3C's format
	for _, test := range []struct{ line, want string }{
		// The common and the combined format.
		{`127.0.0.1 - frank [02/Jul/2018:15:23:01 -0700] "GET /a?b HTTP/1.0" 200 2326 "http://x/" "Mozilla/4.08 [en]"`, "client 127.0.0.1, user frank, asks GET /a?b, status 200, referer http://x/, agent Mozilla/4.08 [en]"},
		{`::1 - - [02/Jul/2018:15:23:01 -0700] "POST /x HTTP/2.0" 404 -`, "client ::1, asks POST /x, status 404"},
		{`h - - [02/Jul/2018:22:23:01 +0000] "GET /a\"b HTTP/1.1" 500 0 "-" "say \"hi\""`, `client h, asks GET /a\"b, status 500, agent say \"hi\"`},
		{`h - - [02/Jul/2018:22:23:01 +0000] "GET / HTTP/1.1" 200 1 "-" "at=1" at=1530570181.250000 took=1.500000 policy=a`, "client h, asks GET /, status 200, after 250ms, took 1.5s, agent at=1"},
		{`h - - [02/Jul/2018:22:23:01 +0000] "GET / HTTP/1.1" 200 1 "-" "-" at=1530570183 took=soon`, "client h, asks GET /, status 200"},
		{`h - - [02/Jul/2018:22:23:01 +0000] "-" 400 0`, "client h, status 400"},
		{`h - - [02/Jul/2018:22:23:01 +0000] "GET / HTTP/1.1" - 1`, "client h, asks GET /"},
		{`h`, ""},
		{`h - - [yesterday] "GET / HTTP/1.1" 200 1`, ""},
		{`h - - [02/Jul/2018:22:23:99 +0000] "GET / HTTP/1.1" 200 1`, ""},
		{`h - - [02/Jul/9999:22:23:01 +0000] "GET / HTTP/1.1" 200 1`, ""},
		{`h - - [02/Jul/2018:22:23:01 +0000] "GET / HTTP/1.1 200 1`, ""},
		{`h - - [02/Jul/2018:22:23:01 +0000] "started" many 1`, ""},
		{`h - - 02/Jul/2018:22:23:01 +0000] "GET / HTTP/1.1" 200 1`, ""},
		{`[02/Jul/2018:22:23:01 +0000] "GET / HTTP/1.1" 200 5`, ""},
		// With a virtual host; a user with a space.
		{`example.com:443 ::1 - - [02/Jul/2018:22:23:01 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl"`, "client ::1, host example.com:443, asks GET /a, status 200, agent curl"},
		{`example.com 192.0.2.1 - alice smith [02/Jul/2018:22:23:01 +0000] "GET /a HTTP/1.1" 200 5`, "client 192.0.2.1, user alice smith, host example.com, asks GET /a, status 200"},
		{`h - [02/Jul/2018:23:23:01 +0000] [02/Jul/2018:22:23:01 +0000] "GET /a HTTP/1.1" 200 5`, "client h, user [02/Jul/2018:23:23:01 +0000], asks GET /a, status 200"},
		// HAProxy, and its log of TCP.
		{
			`2001:db8::1:33317 [02/Jul/2018:22:23:01.000] in be/srv 10/0/30/69/+109 -1 2750 - - ---- 1/1/1/1/0 0/0 "GET https://example.com:443/a?b HTTP/2.0"`,
			"client 2001:db8::1, host example.com, asks GET /a?b, took 109ms",
		},
		{`192.0.2.1:33317 [02/Jul/2018:22:23:01.000] in be/srv 10/0/109 200 2750 -- "GET / HTTP/1.1"`, ""},
		{`192.0.2.1:33317 [02/Jul/2018:22:23:01.000] in be/srv 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0`, ""},
		// AWS: ALB, Classic Load Balancer, S3.
		{
			`h2 2018-07-02T22:23:03Z app/x 192.0.2.1:2817 10.0.0.1:80 0.5 1 0.25 200 200 0 57 "GET https://www.example.com:443 HTTP/2.0" "say \"hi\"" - - - "-" "tls.example.com" "-" 1 2018-07-02T22:23:01Z "forward"`,
			`client 192.0.2.1, host tls.example.com, asks GET /, status 200, took 1.75s, agent say \"hi\"`,
		},
		{
			`2018-07-02T22:23:01Z elb [2001:db8::1]:2817 - -1 -1 -1 503 0 0 57 "GET http://example.com:80/a HTTP/1.1" "-" - -`,
			"client 2001:db8::1, host example.com, asks GET /a, status 503",
		},
		{
			`79a59d logs [02/Jul/2018:22:23:01 +0000] 192.0.2.1 79a59d 3E57 REST.GET.OBJECT a "GET /a HTTP/1.1" 200 - 113 113 109 5 "http://x/" "robot 7" - s9lz SigV4 - - logs.example.com TLSV1.2`,
			"client 192.0.2.1, user 79a59d, host logs.example.com, asks GET /a, status 200, took 109ms, referer http://x/, agent robot 7",
		},
		{`https 2018-07-02T22:23:01Z app/x 192.0.2.1:2817`, ""},
		{`2018-07-02T22:23:01Z INFO server: a b c d e f g h i "GET / HTTP/1.1" j k`, ""},
		// The extended format of the W3C: CloudFront, IIS.
		{"#Fields: date time c-ip cs(Host) x-host-header cs-uri-stem sc-status time-taken", ""},
		{"2018-07-02\t22:23:01\t192.0.2.1\td1.cloudfront.net\texample.com\t/a\t200\t1.5", "client 192.0.2.1, host example.com, asks  /a, status 200, took 1.5s, in 1s"},
		{"#Fields: date time cs-method cs-uri-stem cs-username c-ip cs(User-Agent) cs(Referer) sc-status time-taken", ""},
		{"2018-07-02 22:23:01 GET /a - 192.0.2.1 a+b - 404 1500", "client 192.0.2.1, asks GET /a, status 404, took 1.5s, in 1ms, agent a+b"},
		{"2018-07-02 22:23:01 GET /a - 192.0.2.1 a+b - 404", ""},
		{"2018-07-02 22:23:01 GET /a - 192.0.2.1 a+b - 404 1500 more", ""},
	} {
		t.Run(test.line, func(t *testing.T) {
			if strings.HasPrefix(test.line, "#") {
				columns = test.line
				return
			}
			l, err := New("")
			require.NoError(t, err)
			if strings.HasPrefix(test.line, "2018-07-02 ") || strings.HasPrefix(test.line, "2018-07-02\t") {
				require.True(t, l.w3c.directive([]byte(columns)))
			}
			if ok := l.parse([]byte(test.line)); assert.Equal(t, test.want != "", ok) && ok {
				assert.Equal(t, test.want, describe(&l.r))
			}
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
		{`{"time":12,"timestamp":"2025-06-01T12:00:00.5Z","path":"/"}`, "", at, 0, "", true}, // a duration
		{`{"timestamp":1748779200.5,"time":"0.012","path":"/"}`, "", at, 0, "", true},
		{`{"time":12,"ts":13,"path":"/"}`, "", 12e9, 0, "", true},
		{`{"time":12,"timestamp":"2025-06-01T12:00:00.5Z","path":"/"}`, "time=time", 12e9, 0, "", true},
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
		{`{"time":"9999-01-01T00:00:00Z"}`, "", 0, 0, "", false},
		{`{"time":9e18}`, "", 0, 0, "", false},
	} {
		t.Run(test.line, func(t *testing.T) {
			p, err := newJSONLines(test.fields)
			assert.NoError(t, err)
			var r Record
			if ok := p.parse(gjson.Parse(test.line), &r); assert.Equal(t, test.ok, ok) && ok {
				assert.Equal(t, []any{test.at, test.took, test.key}, []any{r.At, r.Took, string(r.Key)})
			}
		})
	}
}

// TestLines: each line shows its format, whatever comes before it; with --fields only JSON is read.
func TestLines(t *testing.T) {
	access := `h - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1`
	for _, test := range []struct {
		fields string
		lines  []string
		read   int
	}{
		{"", []string{access, `{"time":1}`, access}, 3},
		{"time=time", []string{`{"time":1}`, access, `{"time":2}`}, 2},
		{"", []string{"# comment", `{"time":"soon"}`, ` {"time":1}`, `{"time":2}`, access}, 3},
		{"", []string{`{"msg":"started"}`, `{"time":1`, `[1]`, access, access}, 2},
		{"", []string{"", "nonsense"}, 0},
		{"", []string{access + ` "-" "#Fields: c-ip"`, access}, 2}, // clients choose what they are called
	} {
		l, err := New(test.fields)
		require.NoError(t, err)
		read := 0
		for range l.Read(strings.NewReader(strings.Join(test.lines, "\n"))) {
			read++
		}
		assert.Equal(t, test.read, read, "%q", test.lines)
	}
}

// TestEarly: a log without a time that could be one has a note, unless the user has named the field.
func TestEarly(t *testing.T) {
	for fields, want := range map[string][]string{
		"":          {"times before 1973: 2 of 2; is the time elsewhere? --fields time=NAME says where"},
		"time=time": nil,
	} {
		l, err := New(fields)
		require.NoError(t, err)
		for range l.Read(strings.NewReader("{\"time\":12,\"path\":\"/\"}\n{\"time\":13,\"path\":\"/\"}")) {
		}
		assert.Equal(t, want, l.Notes())
	}
}

// TestCoarse: whole seconds may be rounded, unless a time before them had a fraction.
func TestCoarse(t *testing.T) {
	l, err := New("")
	require.NoError(t, err)
	var coarse []bool
	for r := range l.Read(strings.NewReader("{\"time\":1}\n{\"time\":2.5}\n{\"time\":3}")) {
		coarse = append(coarse, r.Coarse)
	}
	assert.Equal(t, []bool{true, false, false}, coarse)
}

// FuzzFormats parses any line twice, to the same record.
func FuzzFormats(f *testing.F) {
	for _, text := range shapes {
		f.Add([]byte(text))
	}
	for _, line := range []string{
		`h - - [10/Oct/2000:20:55:36 +0000] "GET /a\"b`,
		`192.0.2.7 - - [21/Nov/2026:06:25:24 +0000] "\x16\x03\x01\x00\xEE" 400 166 "-" "-"`,
		`2001:db8::1 - alice smith [29/Feb/2024:23:59:60 +0530] "CONNECT example.com:443 HTTP/1.1" 405 - "" ""`,
		`{"time":"2026-11-21T06:25:24.123456789+01:00","duration":"1h2m3.5s","status":"200","key":null,"path":["a"]}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := New("")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // in the columns of a W3C log as well
			ok := l.parse(line)
			first := l.r
			if ok != l.parse(line) {
				t.Fatal("once parsed, once not")
			}
			if ok {
				assert.Equal(t, first, l.r)
			}
			l.w3c.directive([]byte("#Fields: date time c-ip cs-uri-stem time-taken"))
		}
	})
}
