// Package httplimit limits net/http servers and clients: how many requests, how many at once, how
// many bytes, for all of them or for each client.
//
// To begin with, 10 requests a second and 20 at once for each client:
//
//	http.ListenAndServe(addr, httplimit.PerIP(10, 20)(mux))
//
// With options of your own:
//
//	users, err := partition.New(partition.Options[*http.Request, netip.Prefix]{
//		Key: httplimit.ByIP(httplimit.IPOptions{}),
//		New: func(netip.Prefix) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(10, 20)) },
//	})
//	atOnce, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 100})
//	limits, err := httplimit.New(httplimit.Options{
//		Global:   &httplimit.Policy{Limiter: httplimit.Shared(atOnce), Status: 503},
//		Policies: []httplimit.Policy{{Name: "api", Limiter: users}},
//	})
//	...
//	mux.Handle("/api/", limits.Policy("api")(api))
//	http.ListenAndServe(addr, limits.Handler(mux))
//
// [Limits] are policies: the global policy for every request, and others for the handlers that
// name them. A [Policy] has a [Limiter]. [Shared] makes one of any [core.Limiter], for all requests
// together; a [partition.Keyed] has a limiter for each client.
//
// # What happens to a request
//
// [Limits.Handler] and [Limits.Policy] return wrappers: their own policies decide, in order, and then
// they call the next handler. Their leases are held until that handler has returned or
// panicked, and are released last first; a handler that needs them no longer may release them
// earlier, with [LeaseFromContext]. If a policy rejects the request, all its permits are refunded, and the
// response is 429 Too Many Requests, or Policy.Status, with Retry-After if that is known. The permits
// of the wrappers around are refunded too if their response is that rejection; they are not if the
// handler calls a limited handler for a part of its work, and serves the request without it. If a limiter fails, such as one that is closed or whose Redis is
// unreachable, the answer is 503, or Policy.FailOpen lets the request pass.
//
// By default no request waits: a client that sends too much is rejected at once, and holds nothing
// that others need. Policy.MaxWait lets requests wait in the limiter's queue, which suits a limit
// that all clients share. If the context of a waiting request ends, its handler does not run, and
// its connection is closed without an answer. Over HTTP/1, net/http notices that a client has left
// only after the request's body was read, so a request with a body may wait for a client that has
// gone.
//
// A mux that leaves routes out, or Options.Skip, exempts requests from all policies. A
// [http.ServeMux] matches the path as the client spelled it, cleaned but with escapes such as %2F
// in it: a backend that decodes them may see another path than the mux that chose the policies.
//
// A rejection does not wait for the request's body. Over HTTP/1 the body is read and discarded if it
// is at hand, up to 256 KiB within 5 ms, so that the connection can be used again. Otherwise, and if
// the client expects 100-continue, the answer says "Connection: close".
//
// The handler of a granted request gets the server's own ResponseWriter, so that WebSockets,
// server-sent events, HTTP/2 and sendfile work as they do without limits. Only Refund, Settle,
// Upload, Download and Headers wrap it. Of net/http's own writers the wrapped one has all methods:
// with HTTP/1 it is an http.Flusher, http.Hijacker, http.CloseNotifier and io.ReaderFrom, with
// HTTP/2 an http.Flusher, http.CloseNotifier and http.Pusher. Of a middleware's writer that has
// only some of them it has those of HTTP/1, those of HTTP/2, Flush and Hijack, or Flush alone, whichever
// it has all of; [http.ResponseController] reaches the others.
//
// # Clients
//
// A [Transport] takes a permit for each request that it sends. With HonorRetryAfter it holds requests back for
// as long as servers say, and with Retries it sends rejected requests again.
//
// # Inside
//
// The policies, the decisions and the leases are internal/policy's, as in grpclimit: a policy.Set is the
// options in force, and Admit is the only way to a lease. A wrapper admits the request, answers a
// rejection or calls the next handler, and ends what it took in one deferred function. Its admission is
// the context of the next handler's request, allocated together with the request's copy. A wrapper that
// rejects says so in the admission around it, which then gives back what it took. What net/http must
// find in the request that it made, the multipart form, is handed back. internal/holdback remembers
// which keys a server wants to be left alone.
package httplimit
