// Package httplimit puts net/http servers and clients under limits: how many requests, how
// many at once, how many bytes, for all or for each client.
//
// A server has [Limits], made of policies. The global policy is for every request; others
// are for the handlers that name them:
//
//	l, err := httplimit.New(httplimit.Options{
//		Global:   &httplimit.Policy{Limiter: partition.Shared[*http.Request](atOnce), Status: 503},
//		Policies: []httplimit.Policy{{Name: "api", Limiter: byClient}},
//	})
//	mux.Handle("/api/", l.Policy("api")(api))
//	mux.Handle("/healthz", l.Exempt(health))
//	server.Handler = l.Handler(mux)
//
// # What happens to a request
//
// The global policy is asked first, then the named ones, outermost first, each once. A
// request waits in a limiter's queue if that has one, for Policy.MaxWait at most, and not
// longer than its client does. What it was granted is held until its handler has returned
// or panicked, and released last first; [LeaseFrom] is for handlers that are done with it
// before. If a policy refuses, what the others had granted is refunded, and the request is
// answered with 429 Too Many Requests, or Policy.Status, and Retry-After where that is
// known. If a limiter fails, as one that is closed or whose Redis is away, the answer is
// 503, or Policy.FailOpen lets the request pass.
//
// A rejected request is answered before its body has come, over HTTP/1 too. The connection
// is kept for the next request if the answer is the standard one and the body has a known
// length below 256 KiB; else it is closed after the answer, as the answer says.
//
// A granted request is handed on with the ResponseWriter as it came, so WebSockets,
// server-sent events, HTTP/2 and sendfile work as they do without limits. Only Refund,
// Download and Headers need to wrap it, and what they hand on can do just what it could.
//
// # Clients
//
// A [Transport] takes a permit for each request that it sends, and obeys what servers say
// of their own limits.
package httplimit
