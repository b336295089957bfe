package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// play makes the requests of the README and prints the responses. It returns an error if a response is not
// as the README says.
func play(ctx context.Context, base string, out io.Writer) error {
	v := &visitor{ctx: ctx, base: base, out: out}
	v.say("GET /", v.get("/"), "200")
	v.say("GET /healthz", v.get("/healthz"), "200")

	var answers []string
	for range 2 * apiBurst {
		answers = append(answers, v.get("/api/time"))
	}
	v.say(fmt.Sprintf("GET /api/time, %d times", len(answers)), count(answers), "429")
	v.say("   the last one", v.about, "Retry-After: 1")

	answers = nil
	for range failures + 1 {
		answers = append(answers, v.login("guess"))
	}
	v.say("POST /login, wrong", count(answers), "401: 3, 429: 1")
	v.say("   the last one", v.body, `"violated-policies":["login"]`)

	started := time.Now()
	n := v.download(16 << 20)
	rate := float64(n) / time.Since(started).Seconds() / (1 << 20)
	v.say("GET /download, the first 16 MiB", fmt.Sprintf("%.1f MiB/s", rate), "MiB/s")

	v.say("GET /events, the first two", v.events(2), "data: 1 data: 2")
	return v.err
}

// visitor is a client that stops at the first unexpected response.
type visitor struct {
	ctx   context.Context
	base  string
	out   io.Writer
	about string // the latest response's headers about limits
	body  string // body of the latest response
	err   error
}

// say prints a result, which must contain want.
func (v *visitor) say(what, seen, want string) {
	if v.err != nil {
		return
	}
	_, _ = fmt.Fprintf(v.out, "%-32s %s\n", what, strings.TrimSpace(seen))
	if !strings.Contains(seen, want) {
		v.err = fmt.Errorf("%s: saw %q, want %q in it", strings.TrimSpace(what), seen, want)
	}
}

func (v *visitor) get(path string) string { return v.send(http.MethodGet, path, "") }

func (v *visitor) login(password string) string {
	return v.send(http.MethodPost, "/login", url.Values{"password": {password}}.Encode())
}

// send makes a request, and returns the status.
func (v *visitor) send(method, path, form string) string {
	response := v.open(method, path, form)
	if response == nil {
		return ""
	}
	defer response.Body.Close()
	b, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		v.err = err
	}
	v.body, v.about = string(b), ""
	for _, name := range []string{"Retry-After", "RateLimit-Policy", "RateLimit"} {
		if value := response.Header.Get(name); value != "" {
			v.about += name + ": " + value + "  "
		}
	}
	return strconv.Itoa(response.StatusCode)
}

func (v *visitor) open(method, path, form string) *http.Response {
	if v.err != nil {
		return nil
	}
	r, err := http.NewRequestWithContext(v.ctx, method, v.base+path, strings.NewReader(form))
	if err != nil {
		v.err = err
		return nil
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		v.err = err
		return nil
	}
	return response
}

// download reads the first n bytes.
func (v *visitor) download(n int64) int64 {
	response := v.open(http.MethodGet, "/download", "")
	if response == nil {
		return 0
	}
	defer response.Body.Close()
	n, err := io.CopyN(io.Discard, response.Body, n)
	if err != nil {
		v.err = err
	}
	return n
}

// events reads the first n events.
func (v *visitor) events(n int) string {
	response := v.open(http.MethodGet, "/events", "")
	if response == nil {
		return ""
	}
	defer response.Body.Close()
	var lines []string
	for s := bufio.NewScanner(response.Body); len(lines) < n && s.Scan(); {
		if s.Text() != "" {
			lines = append(lines, s.Text())
		}
	}
	return strings.Join(lines, " ")
}

// count counts equal responses, in the order of their first occurrence.
func count(answers []string) string {
	var order []string
	times := make(map[string]int)
	for _, a := range answers {
		times[a]++
		if times[a] == 1 {
			order = append(order, a)
		}
	}
	for i, a := range order {
		order[i] = fmt.Sprintf("%s: %d", a, times[a])
	}
	return strings.Join(order, ", ")
}
