// Package httplimit limits net/http servers and clients: how many requests, how many at once and how
// many bytes, in total or per client.
//
// The simplest limit is 10 requests a second per client, with bursts of 20:
//
//	http.ListenAndServe(addr, httplimit.PerIP(10, 20)(mux))
//
// With your own options:
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
// [Limits] applies policies: the global policy to every request, and others to the handlers that name
// them. A [Policy] has a [Limiter]. [Shared] turns any [core.Limiter] into one limit for all requests;
// a [partition.Keyed] has a limiter per client.
//
// # What happens to a request
//
// [Limits.Handler] and [Limits.Policy] return wrappers. A wrapper applies its policies, in order, and
// then calls the next handler. It holds their leases until that handler has returned or panicked, and
// then releases them, last first. A handler that no longer needs them may release them earlier, with
// [LeaseFromContext].
//
// If a policy rejects the request, the wrapper refunds all its permits and responds with 429 Too Many
// Requests, or with Policy.Status. The response has a Retry-After header if the time is known. If
// wrappers are nested, those around the one that rejected refund their permits too, even if a handler in
// between, or OnRejected, responds with something else, such as an older page or a redirect.
//
// If a limiter fails, for example because it is closed or its Redis server is unreachable, the response
// is 503, unless Policy.FailOpen lets the request pass.
//
// By default requests do not wait: a client that sends too much is rejected immediately, and holds
// nothing that others need. Policy.MaxWait lets requests wait in the limiter's queue, which suits a
// limit that all clients share. If the context of a waiting request ends, its handler does not run, and
// its connection is closed without a response. Over HTTP/1, net/http notices that a client has
// disconnected only after the request's body was read, so a request with a body may keep waiting after
// its client has disconnected.
//
// To exempt requests from all policies, use a mux that leaves their routes out, or Options.Skip. A
// [http.ServeMux] matches the path as the client spelled it, cleaned but with escapes such as %2F in
// it. A backend that decodes these may see another path than the mux that chose the policies.
//
// A rejection does not wait for the request's body. Over HTTP/1 up to 256 KiB of the body are read and
// discarded if they arrive within 5 ms, so that the connection can be reused. Otherwise, and if the
// client expects 100-continue, the response has the header "Connection: close".
//
// # HTTP/2
//
// The body of a request that waits is not read, and one that Upload throttles is read slowly. Over HTTP/2
// the bytes that were not read count in the receive window of the connection, which all its requests share.
// By default, net/http gives one request as much as the whole connection. Then a request that waits can
// keep the bodies of all others on its connection from arriving, even that of the request whose permit it
// waits for. With MaxWait or Upload, let the windows of all requests fit into that of the connection:
//
//	server.HTTP2 = &http.HTTP2Config{
//		MaxConcurrentStreams: 250, MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 250 * 64 << 10,
//	}
//
// If a server's configuration is not like this, Options.Logger, or [slog.Default], gets a warning.
//
// # ResponseWriters
//
// Handlers get the server's own ResponseWriter, so WebSockets, server-sent events, HTTP/2 and sendfile
// work as usual. It is wrapped only if Refund, Settle, Upload, Download or Headers is used. The wrapper
// keeps the optional interfaces of net/http's writers: http.Flusher, http.Hijacker, http.CloseNotifier
// and io.ReaderFrom for HTTP/1; http.Flusher, http.CloseNotifier and http.Pusher for HTTP/2. If other
// middleware has replaced the writer, the wrapper implements the first of these sets that the
// replacement supports in full: the HTTP/1 set, the HTTP/2 set, Flusher and Hijacker, or Flusher alone.
// It always implements io.ReaderFrom. Use [http.ResponseController] for the rest.
//
// # Clients
//
// A [Transport] takes a permit for each request that it sends. With HonorRetryAfter it delays requests
// for as long as servers ask, and with Retries it sends rejected requests again.
package httplimit

// Inside: the policies, decisions and leases are internal/limit/policy's, as in grpclimit: a policy.Set holds the
// current options, and Admit is the only way to a lease. A wrapper admits the request, responds to a
// rejection or calls the next handler, and ends what it took in one deferred function. Its admission is
// also the context of the next handler's request, and is allocated together with the copy of the
// request. A wrapper that rejects tells only the admission around it, which then refunds its permits. The
// multipart form is copied back, because net/http must find it in the request that it created.
// internal/limit/backoff remembers which keys a server has asked to wait.
