// Package spec writes a limit as a line of text, for flags, configuration and logs.
//
//	100/s                              token bucket; one permit every 10 ms
//	bucket 5000/h burst 100 queue 20
//	8MiB/s burst 1MiB
//	fixed 1000/1h
//	sliding 100/1m segments 6
//	concurrency 10 queue 5 newest-first
//	unlimited
//
// The kind stands first: bucket, fixed, sliding, concurrency or unlimited; without one it is
// a bucket. Then comes the amount, then any of these words, in any order, each once:
//
//	burst 20        bucket: how many permits may be taken at once; else those of 10 ms
//	segments 6      sliding: the window slides in so many steps; else 10
//	queue 5         all but unlimited: how many permits may wait; else none
//	oldest-first    all but unlimited: who of those that wait is served first
//	newest-first
//
// Upper and lower case are the same.
//
// # Numbers
//
// A number is whole, may have _ between its digits, and a unit: k, M, G and T are powers of
// 1000; Ki, Mi, Gi and Ti are powers of 1024. B, for bytes, may stand after a unit or alone.
//
// # Times
//
// After the / stands a time: ns, us, ms, s, m or min, h, d or day, their long names and
// plurals (second, minutes), with or without a whole number before it, or whatever
// [time.ParseDuration] takes, as 1h30m. So in 8m/s the m is mega, in 8/m a minute. A day is
// 24 hours. Windows begin when the limiter is made.
//
// # Buckets
//
// The permits of a bucket come one at a time, the period rounded up to the nanosecond, if
// that takes a microsecond or more. Else they come in the least whole number of nanoseconds
// that makes the rate exact, if there is one up to a millisecond; else what a millisecond
// brings comes every millisecond, rounded down. If that is more than the burst, the burst
// comes in the time that it takes, rounded up. So rounding never makes the rate higher.
package spec
