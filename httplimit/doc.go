// Package httplimit limits net/http servers and clients: how many requests, how many at once, how
// many bytes, for all of them or for each client.
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
// [Limits.Handler] and [Limits.Policy] return wrappers: handlers that ask their own policies, in
// order, and then call the next handler. Their leases are held until that handler has returned or
// panicked, and are released last first; a handler that needs them no longer may release them
// earlier, with [LeaseFrom]. If a policy rejects the request, all permits are refunded, also those
// of the wrappers around, and the answer is 429 Too Many Requests, or Policy.Status, with
// Retry-After if that is known. If a limiter fails, such as one that is closed or whose Redis is
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
// A rejection does not wait for the request's body. Over HTTP/1 that costs the connection of a
// request with a body: the answer says "Connection: close". OnRejected may delete that field; then
// the server reads the body first, as it does for any handler.
//
// The handler of a granted request gets the server's own ResponseWriter, so that WebSockets,
// server-sent events, HTTP/2 and sendfile work as they do without limits. Only Refund, Settle,
// Download and Headers wrap it, with exactly the optional methods that it has.
//
// # Clients
//
// A [Transport] takes a permit for each request that it sends. With Obey it holds requests back for
// as long as servers ask, and with Retries it sends rejected requests again.
package httplimit
