// Package compat tests Sluice with other people's code:
//
//   - The tests of golang.org/x/time/rate and of puddle, run from a copy in which a limiter
//     of core's stands in for theirs; those of errgroup, conc, pond and gammazero/workerpool,
//     with a worker.Pool; those of eapache/channels, with channels; and those of io.Pipe, with a
//     pipe. The adapters are in testdata.
//   - golang.org/x/net/nettest on the connections of pipe and ioreader, and what x/net asks
//     of netutil.LimitListener, asked of ioreader.NewListener as well.
//   - httplimit with chi, gin, a WebSocket library and a parser of structured fields.
//   - docs/start.md, followed to the letter by TestStart. Its programs are in the folder guide,
//     those of docs/cookbook, with their tests, in the folder cookbook.
//   - The folder migrate has the programs of docs/migrate, before and after, and tests that play
//     the same requests to both.
//   - The page of sluice playground, in Chromium: "make browser".
//
// It is a module of its own, so that nobody who imports Sluice requires what only its tests need.
package compat
