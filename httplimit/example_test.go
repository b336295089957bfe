package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// Each client may make two requests a minute. There are at most 100,000 clients with a limit of
// their own; all others share one limit.
func Example() {
	perMinute := func() (core.Limiter, error) {
		return core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 2, Window: time.Minute})
	}
	byClient := core.Must(partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key:           httplimit.ByIP(httplimit.IPOptions{}),
		New:           func(netip.Prefix) (core.Limiter, error) { return perMinute() },
		MaxPartitions: 100_000,
		Group:         func(netip.Prefix) netip.Prefix { return netip.Prefix{} },
	}))
	limits := core.Must(httplimit.New(httplimit.Options{Policies: []httplimit.Policy{{Name: "api", Limiter: byClient}}}))
	mux := http.NewServeMux()
	mux.Handle("/api/", limits.Policy("api")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	})))
	handler := limits.Handler(mux)

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/hello", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 ""
	// 200 ""
	// 429 "60"
}

// Only failed logins count.
func ExamplePolicy_refund() {
	window := core.Must(core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 1, Window: time.Minute, SegmentsPerWindow: 6}))
	limits := core.Must(httplimit.New(httplimit.Options{Policies: []httplimit.Policy{{
		Name:    "login",
		Limiter: httplimit.Shared(window), // one for each client would be right
		Refund:  func(_ *http.Request, status int) bool { return status < 400 },
	}}}))
	login := limits.Policy("login")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "sesame" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"sesame", "sesame", "guess", "sesame"} {
		w := httptest.NewRecorder()
		login.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/login?password="+password, nil))
		fmt.Println(password, w.Code)
	}
	// Output:
	// sesame 200
	// sesame 200
	// guess 401
	// sesame 429
}

// The cost of a request is known only after it was served. The handler reports it in a header.
func ExamplePolicy_settle() {
	window := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 100, Window: time.Minute}))
	limits := core.Must(httplimit.New(httplimit.Options{Policies: []httplimit.Policy{{
		Name:    "rows",
		Limiter: httplimit.Shared(window),
		Cost:    func(*http.Request) int { return 50 }, // an estimate
		Settle: func(_ *http.Request, _ int, h http.Header) int {
			rows, err := strconv.Atoi(h.Get("X-Rows"))
			if err != nil {
				return -1 // leave it
			}
			return rows
		},
	}}}))
	query := limits.Policy("rows")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Rows", "12")
	}))
	query.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/query", nil))
	fmt.Println(window.Available(), "rows are left")
	// Output: 88 rows are left
}

// A server says how long to wait, and the next request waits that long.
func ExampleTransport() {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if asked == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	transport := core.Must(httplimit.NewTransport(httplimit.TransportOptions{HonorRetryAfter: true, Retries: 3}))
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	response := core.Must(client.Get(server.URL))
	defer response.Body.Close()
	fmt.Println(response.Status, "after", asked)
	// Output: 200 OK after 2
}

// Each API key has a limit of its own.
func ExampleByHeader() {
	key := httplimit.ByHeader("X-Api-Key")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	fmt.Printf("%q\n", key(r))
	r.Header.Set("X-Api-Key", "ann")
	fmt.Printf("%q\n", key(r))
	// Output:
	// ""
	// "ann"
}

// A crawler that sends each host one request a minute.
func ExampleByHost() {
	hosts := core.Must(partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHost,
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(core.Every(time.Minute, 1)) },
	}))
	for _, url := range []string{"https://one.example/a", "https://ONE.example:443/b", "https://two.example/"} {
		r := httptest.NewRequest(http.MethodGet, url, nil)
		fmt.Println(httplimit.ByHost(r), hosts.TryAcquire(r, 1).Acquired())
	}
	// Output:
	// one.example true
	// one.example false
	// two.example true
}

// Behind a trusted proxy, the client's address is the one that the proxy sends.
func ExampleByIP() {
	key := httplimit.ByIP(httplimit.IPOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Forwarded-For", "198.51.100.7")
	r.RemoteAddr = "10.1.2.3:4567"
	fmt.Println(key(r))
	r.RemoteAddr = "192.0.2.1:4567" // not one of our proxies, so its header is ignored
	fmt.Println(key(r))
	// Output:
	// 198.51.100.7/32
	// 192.0.2.1/32
}

// The key is the route, not the path.
func ExampleByPattern() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(httplimit.ByPattern(r))
	})
	for _, path := range []string{"/items/1", "/items/2"} {
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	// Output:
	// GET /items/{id}
	// GET /items/{id}
}

// A handler releases its permit when the limited work is done, and then continues.
func ExampleLeaseFromContext() {
	one := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
	limits := core.Must(httplimit.New(httplimit.Options{Global: &httplimit.Policy{Limiter: httplimit.Shared(one)}}))
	handler := limits.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("in the database:", one.Available())
		if lease, ok := httplimit.LeaseFromContext(r.Context()); ok {
			lease.Release()
		}
		fmt.Println("sending the answer:", one.Available())
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	// Output:
	// in the database: 0
	// sending the answer: 1
}

// For a framework whose middleware is not an http.Handler, Check only decides.
func ExampleLimits_Check() {
	bucket := core.Must(core.NewTokenBucket(core.Every(time.Minute, 1)))
	limits := core.Must(httplimit.New(httplimit.Options{Policies: []httplimit.Policy{{Name: "api", Limiter: httplimit.Shared(bucket)}}}))
	for range 2 {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		lease, rejection := limits.Check(r, "api")
		if rejection != nil {
			rejection.ServeHTTP(w, r)
			fmt.Println(w.Code, w.Header().Get("Retry-After"))
			continue
		}
		fmt.Println("served")
		lease.Release()
	}
	// Output:
	// served
	// 429 60
}

// One line limits each client to 10 requests a second, with bursts of 20.
func ExamplePerIP() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	limited := httplimit.PerIP(10, 20)(mux)

	answers := map[int]int{}
	for range 25 {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		answers[w.Code]++
	}
	fmt.Println(answers[http.StatusOK] >= 20, answers[http.StatusTooManyRequests] > 0)
	// Output: true true
}
