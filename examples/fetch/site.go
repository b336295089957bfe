package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// site is a web server of linked pages, on the loopback interface.
type site struct {
	url    string
	server *http.Server
	ended  chan error
}

// serve starts a site with the given number of pages.
func serve(pages int) (*site, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page/{number}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("number"))
		if err != nil || n < 0 || n >= pages {
			http.NotFound(w, r)
			return
		}
		page(w, r, n, pages)
	})
	s := &site{
		url:    "http://" + listener.Addr().String() + "/page/0",
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
		ended:  make(chan error, 1),
	}
	go func() { s.ended <- s.server.Serve(listener) }()
	return s, nil
}

// page writes page n after a delay: three links to later pages, one to an earlier page, and some text.
func page(w http.ResponseWriter, r *http.Request, n, pages int) {
	thinking := time.NewTimer(time.Duration(20+rand.IntN(100)) * time.Millisecond)
	defer thinking.Stop()
	select {
	case <-thinking.C:
	case <-r.Context().Done():
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html><title>Page %d</title>\n", n)
	for k := 3*n + 1; k <= 3*n+3 && k < pages; k++ {
		fmt.Fprintf(&b, "<a href=\"/page/%d\">page %d</a>\n", k, k)
	}
	fmt.Fprintf(&b, "<a href=\"/page/%d#top\">back</a> <a href=\"http://example.com/\">elsewhere</a>\n", n/3)
	b.WriteString(strings.Repeat("<p>lorem ipsum</p>\n", 50+n%100))
	_, _ = io.WriteString(w, b.String()) // a disconnected client needs no page
}

// close stops the server and waits until it has stopped.
func (s *site) close() error {
	closing := s.server.Close()
	if err := <-s.ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return closing
}
