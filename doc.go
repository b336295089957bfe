// Package sluice is the root of a library for rate limits, concurrency limits and quotas. It
// contains no code: import the packages below.
//
// Create a limiter once and use it anywhere: in a channel, a pipe, a reader, a worker pool, an
// HTTP or gRPC server, globally or per key, in one process or, through Redis, in many. A limiter
// grants permits as a lease:
//
//	limiter, err := core.NewTokenBucket(core.PerSecond(100, 20)) // 100 a second, bursts of 20
//	if err != nil {
//		return err
//	}
//	lease, err := limiter.Acquire(ctx, 1) // waits, because the queue of PerSecond is unbounded
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
// The directory docs of the repository has these pages:
//
//   - docs/start.md: five minutes; one limit in Go, in Redis and in a proxy.
//   - docs/tour.md: a few lines for each of most packages.
//   - docs/choose.md: which limiter fits your problem, and what each does to a burst.
//   - docs/cookbook: complete functions for logins, tenants, crawlers, uploads and more.
//   - docs/migrate: how to move from other libraries to this one.
//   - docs/fair.md: per-key limits, fair shares and priorities.
//   - docs/settle.md: costs that are known only afterwards.
//   - docs/overload.md: servers under overload, and adaptive limits.
//   - docs/distributed.md: limits that processes share.
//   - docs/grpc.md, docs/proxy.md, docs/serve.md: gRPC, the proxy, and Envoy's rate limit service.
//   - docs/simulate.md, docs/playground.md: testing a limit against a log, also in the browser.
//
// # Limiters
//
//   - core: concurrency limiter, token bucket, fixed and sliding window; leases, chains,
//     switches, statistics.
//   - partition: one limiter per key, in bounded memory.
//   - spec: limits written as text, such as "100/s burst 20".
//   - adaptive: a concurrency limit that adapts to latency, and load shedding.
//   - redislimit (a separate module): limiters shared by many processes, in Redis.
//
// # Packages that use a limiter
//
//   - channel: a channel whose queued items hold leases.
//   - pipe: an in-memory pipe and a pair of connections; permits are bytes.
//   - ioreader: throttled readers, writers, connections, listeners and copies; permits are
//     bytes.
//   - worker: a pool whose tasks run under a lease.
//   - httplimit: middleware for servers, and a transport for clients.
//   - grpclimit (a separate module): interceptors for gRPC servers and clients.
//   - resilience: runs functions under a limiter.
//
// # Tools
//
//   - limitertest: a conformance suite for any limiter, and a check for leaked leases.
//   - telemetry (a separate module): OpenTelemetry and Prometheus.
//   - cmd/sluice (a separate module): a command that throttles pipes, runs commands, proxies
//     HTTP and simulates limits.
package sluice
