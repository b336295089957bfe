package main

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-go/sluice/httplimit"
)

const index = `<!doctype html>
<title>A site under limits</title>
<h1>A site under limits</h1>
<form method=post action=/login><input name=password type=password placeholder="open sesame"><button>Log in</button></form>
<p><a href=/api/time>the time</a>, 5 a second for each client
<p><a href=/download>50 MB</a>, 8 MiB a second for all together
<p><a href=/events>events</a>, one a second
<p><a href=/healthz>health</a>, without limits
`

// newSite returns the site. The mux routes requests, and limits bounds them.
func newSite(limits *httplimit.Limits) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, index)
	})
	mux.Handle("GET /api/time", limits.Policy("api")(http.HandlerFunc(now)))
	mux.Handle("POST /login", limits.Policy("login")(http.HandlerFunc(login)))
	mux.Handle("GET /download", limits.Policy("download")(http.HandlerFunc(download)))
	mux.HandleFunc("GET /events", events)

	site := http.NewServeMux()
	site.Handle("/", limits.Handler(mux))
	site.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { // not limited
		_, _ = fmt.Fprintln(w, "ok")
	})
	return site
}

func now(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]time.Time{"time": time.Now().UTC()})
}

func login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4096)
	if subtle.ConstantTimeCompare([]byte(r.FormValue("password")), []byte("open sesame")) != 1 {
		http.Error(w, "wrong password", http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprintln(w, "welcome")
}

// size is the number of bytes to download.
const size = 50_000_000

var content = strings.Repeat("All work and no play makes Jack a dull boy.\n", size/44+1)[:size]

func download(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "novel.txt", time.Time{}, strings.NewReader(content))
}

// events sends an event per second until the client disconnects.
func events(w http.ResponseWriter, r *http.Request) {
	// The limit bounds work, and waiting for the next second is not work.
	if lease, ok := httplimit.LeaseFromContext(r.Context()); ok {
		lease.Release()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 1; ; i++ {
		if _, err := fmt.Fprintf(w, "data: %d\n\n", i); err != nil {
			return
		}
		if flush.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}
