package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"time"
)

// hit is a line of a log: who asked, and when.
type hit struct {
	client string
	at     time.Duration // since the first
}

// accessLog is what a log says. Its lines are in the order of the file: a server writes them
// as requests end, so that times may go back a little.
type accessLog struct {
	hits []hit
	odd  int // lines that are not in the format
}

// combined is a line in the combined log format, as Apache and nginx write it:
//
//	192.0.2.7 - ann [10/Oct/2026:13:55:36 +0200] "GET /a HTTP/1.1" 200 512 "-" "curl/8.5"
//
// The common format is the same without the last two.
var combined = regexp.MustCompile(`^(\S+) \S+ .*?\[([^\]]+)\] "(?:[^"\\]|\\.)*" \d{3} (?:\d+|-)(?: |$)`)

const (
	timeLayout = "02/Jan/2006:15:04:05 -0700"
	longLine   = 1 << 20
)

func readLog(in io.Reader) (accessLog, error) {
	var l accessLog
	var first time.Time
	clients := make(map[string]string) // so that a line is not kept for its first word
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longLine)
	for lines.Scan() {
		m := combined.FindSubmatch(lines.Bytes())
		if m == nil {
			l.odd++
			continue
		}
		at, err := time.Parse(timeLayout, string(m[2]))
		if err != nil {
			l.odd++
			continue
		}
		client, ok := clients[string(m[1])]
		if !ok {
			client = string(m[1])
			clients[client] = client
		}
		if len(l.hits) == 0 {
			first = at
		}
		l.hits = append(l.hits, hit{client, at.Sub(first)})
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return l, fmt.Errorf("line %d is longer than %d bytes", len(l.hits)+l.odd+1, longLine)
	case err != nil:
		return l, err
	case len(l.hits) == 0:
		return l, fmt.Errorf("no line in the combined log format among %d", l.odd)
	}
	return l, nil
}

// generate writes a log of an hour: a few clients send two fifths of all requests, most
// clients a handful.
func generate(out io.Writer, lines int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0))
	small := rand.NewZipf(r, 1.1, 20, 20_000)
	start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	w := bufio.NewWriter(out)
	for i := range lines {
		at := start.Add(time.Duration(float64(time.Hour) * float64(i) / float64(lines)))
		client := fmt.Sprintf("198.51.%d.%d", 100+small.Uint64()/250, small.Uint64()%250+1)
		agent := "Mozilla/5.0"
		if r.IntN(5) < 2 {
			heavy := min(r.IntN(6), r.IntN(6))
			client, agent = fmt.Sprintf("203.0.113.%d", heavy+1), "crawler/1.0"
		}
		if _, err := fmt.Fprintf(w, "%s - - [%s] \"GET /page/%d HTTP/1.1\" 200 %d \"-\" %q\n",
			client, at.Format(timeLayout), r.IntN(1000), 200+r.IntN(20_000), agent); err != nil {
			return err
		}
	}
	return w.Flush()
}
