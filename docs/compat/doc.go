// Package compat tests Sluice with other people's code:
//
//   - The tests of golang.org/x/time/rate, x/sync/semaphore and puddle run from a copy in which
//     a limiter of core replaces theirs. Those of errgroup and pond run on a worker.Pool. The
//     adapters are in testdata.
//   - golang.org/x/net/nettest tests the connections of pipe and ioreader.
//   - httplimit runs under chi, gin and WebSocket libraries, and a parser of structured fields
//     reads its headers.
//   - Adapters have the interfaces of other programs, written down here: client-go's rate limiters of
//     flowcontrol and workqueue, and a rate limit per zone and key of a web server.
//   - The page of sluice playground runs in Chromium, in the nightly script.
package compat
