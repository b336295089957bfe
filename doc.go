// Package sluice is the root of a library of rate-limited concurrency primitives. It holds
// no code: import the packages below.
//
// A limiter grants permits as a lease, and the same limiter works with a channel, a pipe,
// a reader, a worker pool, an HTTP server, a map of keys or Redis:
//
//	limiter, err := core.NewTokenBucket(core.PerSecond(100, 20)) // 100 a second, 20 at once
//	if err != nil {
//		return err
//	}
//	lease, err := limiter.Acquire(ctx, 1) // waits in the queue; TryAcquire does not wait
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
// The pages in the folder docs of the repository explain the rest:
//
//   - docs/start.md: five minutes; one limit in Go, on Redis and in a proxy.
//   - docs/choose.md: which limiter, for whom, and what each does to a burst.
//   - docs/cookbook: logins, tenants, crawlers, uploads, queues, overload.
//   - docs/migrate: from other libraries to this one.
//   - docs/fair.md: a limiter for each key, fair shares, priorities.
//   - docs/settle.md: costs that are known afterwards.
//   - docs/overload.md: servers under overload, and limits that adapt.
//   - docs/distributed.md: limits that processes share.
//   - docs/grpc.md, docs/proxy.md: gRPC, and the proxy.
//   - docs/simulate.md, docs/playground.md: trying a limit on a log, also in the browser.
//
// # Limiters
//
//   - core: concurrency limiter, token bucket, fixed and sliding window; leases, chains,
//     statistics.
//   - partition: one limiter for each key, in bounded memory.
//   - spec: limits written as text, such as "100/s burst 20".
//   - adaptive: a concurrency limit that follows latency, and load shedding.
//   - redislimit (a module of its own): limiters shared by many processes, on Redis.
//
// # What uses a limiter
//
//   - channel: a channel whose queued items hold leases.
//   - pipe: an in-memory pipe and a pair of connections; permits are bytes.
//   - ioreader: throttled readers, writers, connections, listeners and copies; permits are
//     bytes.
//   - worker: a pool whose tasks run under a lease.
//   - httplimit: middleware for servers, and a transport for clients.
//   - grpclimit (a module of its own): gRPC servers and clients.
//   - rlslimit (a module of its own): a rate limit service for Envoy.
//   - resilience: calls a function under a limiter.
//
// # Tools
//
//   - limitertest: a conformance suite for any limiter, and a check for leaked leases.
//   - telemetry (a module of its own): OpenTelemetry and Prometheus.
//   - cmd/sluice (a module of its own): a command that throttles, runs, proxies and
//     simulates.
package sluice
