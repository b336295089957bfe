// Package compat tests Sluice with other people's code: the test suites of golang.org/x/net
// and puddle, golang.org/x/time/rate and netutil.LimitListener side by side with ours, and
// httplimit with a router, a WebSocket library and a parser of structured fields.
//
// It holds tests alone. It is a module of its own, so that nobody who imports Sluice
// requires what only its tests need.
package compat
