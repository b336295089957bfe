// Package spec reads a limit from a line of text, for flags, configuration files and logs.
//
//	limit, err := spec.Parse("100/s burst 20")
//	...
//	limiter, err := limit.New("api")
//
// These are limits:
//
//	100/s                              token bucket; starts with 100 permits, one more every 10 ms
//	bucket 5000/h burst 100 queue 20
//	8MiB/s burst 1MiB
//	fixed 1000/1h
//	fixed 100000/month day 15 tz Europe/Berlin
//	sliding 100/1m segments 6
//	concurrency 10 queue 5 newest-first
//	unlimited
//	blocked                            rejects everything
//	paused                             grants nothing; callers that may wait do so until the limit changes
//	fixed 1000/day tz Europe/Berlin, concurrency 5
//
// The last one is two limits that both apply. [ParseLimits] reads such a line, in which commas separate the limits,
// and returns [Limits]. They can do what a [Limit] can.
//
// A limit starts with its kind: bucket, fixed, sliding, concurrency, unlimited, blocked or paused. If there is
// no kind, it is a bucket. The amount follows, then any of these words, in any order, each at
// most once:
//
//	burst 20        bucket: the largest number of permits that may be taken in one burst
//	segments 6      sliding: the number of steps in which the window slides; default 10
//	day 15          fixed, by the month: the day on which windows start; default 1
//	from sunday     fixed, by the week: the day on which windows start; default monday
//	tz Asia/Tokyo   fixed, by the day, week, month or year: the time zone, UTC, Local or an IANA name
//	queue 5         kinds with an amount: the number of permits that may wait; default 0
//	oldest-first    kinds with an amount: the oldest waiting request is served first; the default
//	newest-first    kinds with an amount: the newest waiting request is served first
//	fair-share      kinds with an amount: waiting requests are served in turn, by core.Flow
//
// Case matters only in IANA names.
//
// # Numbers
//
// A number is whole, may have _ between its digits, and may have a unit: k, M, G and T are
// powers of 1000; Ki, Mi, Gi and Ti are powers of 1024. A B, for bytes, may follow the unit or
// the number.
//
// # Times
//
// The time follows the slash: ns, us, ms, s, m or min, h, d or day, week, their long names and
// plurals (second, minutes), with or without a whole number before it, or any duration that
// [time.ParseDuration] accepts, such as 1h30m. In 8m/s the m means mega; in 8/m it means a
// minute. A day is 24 hours, a week seven of them. Windows start when the limiter is created.
//
// # The calendar
//
// Fixed windows may be calendar windows: see [core.Calendar]. A month and a year always are, in
// UTC if there is no tz. A day is if there is a tz, and a week if there is a tz or a from:
//
//	fixed 1M/year
//	fixed 1000/month
//	fixed 500/week from sunday
//	fixed 100/day tz America/Los_Angeles
//	fixed 100/day                           24 hours, from the creation of the limiter
//
// Such a window is one day, week, month or year, written in full and without a number: 100/day tz UTC,
// not 100/d tz UTC or 100/1day tz UTC.
//
// # Limits that change
//
// [Limits.Apply] changes the limits of a limiter while it is in use. Limiters whose kind stays are updated, so what they have
// granted still counts, and the others are replaced. With a [core.Switch] call [Limits.Set]. With one limiter per
// key call Apply in the Update of a partition.Keyed, and then its Refresh.
//
// # Buckets
//
// A bucket without a burst holds the permits of its amount: 100/s grants 100 requests in one burst,
// so a page with twenty parts loads without rejections. Write "burst 1" to space requests
// evenly. An amount with a B is a number of bytes, which come evenly: without a burst the
// bucket holds the bytes of 10 ms, but at least 1,460, the payload of a packet.
//
// If the period of a single permit is a microsecond or more, permits become available one at a
// time, at that period rounded up to the nanosecond. Otherwise they come several at a time, at the
// shortest period of whole nanoseconds, up to a millisecond, that makes the rate exact. If there is
// none, they come once a millisecond, their number rounded down. If that number is more than the
// burst, a whole burst comes at a time, at the period of the rate rounded up. Rounding never makes
// the rate higher.
//
// Bytes come as those of ioreader.PerSecond do, at least once a millisecond, or one at a time below 1000
// bytes a second. The rate is exact to within a millionth. If more bytes than the burst would come at a time,
// an eighth of the burst, at least 1, comes at a time, and the rate is not exceeded.
package spec
