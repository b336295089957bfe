// Package redislimit has the limiters of package core for many processes: their state is on
// a Redis or Valkey server, and all processes together keep the limit. Where one process is
// outgrown, the constructor changes and nothing else.
//
// A limit is named by [Shared].Key; every process that makes a limiter of that Key takes part.
// Time is the server's, and no process' clock is ever sent. Each decision is one script, atomic,
// in integers; what is refused takes nothing.
//
// Decisions take one round trip to the store at most, and mostly less: calls at the same time
// travel together, a refusal is remembered until its time is over, and rate limiters fetch
// permits ahead. If the store does not answer within [Shared].Budget, [Shared].Down decides.
//
// A concurrency lease is renewed while it is held. If it can't be, it is lost, and its
// permits go to others; [Context] tells the holder before that happens.
//
// Packages goredis and rueidis make a [Store] of the client that you have.
package redislimit
