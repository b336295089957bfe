package cli

// Grammar explains limits as text: help limits prints it, and each man page of a command that takes limits has it.
const Grammar = `A SPEC is one or more limits, separated by commas; all of them apply:

  100/s                                    one permit every 10 ms
  8MiB/s burst 1MiB                        bytes
  bucket 5000/h burst 100 queue 20         the word bucket may be left out
  fixed 1000/1h                            windows of an hour
  fixed 1000/month day 15 tz Europe/Berlin windows of the calendar
  sliding 100/1m segments 6                a window that slides in six steps
  concurrency 10 queue 5 newest-first      at most 10 at a time
  fixed 1000/day tz UTC, concurrency 5     two limits
  unlimited
  blocked                                  rejects everything
  paused                                   grants nothing until the limit is changed

A limit starts with its kind: bucket, fixed, sliding or concurrency. Without a kind it is a
bucket. Then come the amount and these words, in any order:

  burst N          bucket: how many permits may be taken together
  segments N       sliding: in how many steps the window slides (10)
  day N            fixed, by the month: the day on which windows start (1)
  from WEEKDAY     fixed, by the week: the day on which windows start (monday)
  tz ZONE          fixed, by the day, week, month or year: UTC, Local or an IANA name
  queue N          how many permits may wait (0); where the command waits, it has no effect
  oldest-first     the oldest waiting request is served first, as without a word
  newest-first     the newest waiting request is served first
  fair-share       waiting requests are served in turn, flow by flow

An amount is a whole number, a slash and a time, such as 10/s or 500/15m. Write 1/2s for one
permit every two seconds. k, M, G and T multiply by powers of 1000, and Ki, Mi, Gi and Ti by
powers of 1024. A B makes it an amount of bytes, as in 500kB. Where requests, jobs or lines
are counted, that is an error.

A time is ns, us, ms, s, m (or min), h, d (or day) or week, with or without a number before
it, or a duration such as 1h30m. A month and a year are those of the calendar; a day and a
week are too if there is a tz. Otherwise a window starts when the limit is created.

In throttle, run and wait, permits come at even intervals unless the limit has a burst. In
proxy, serve and simulate, a bucket without a burst starts with all permits of its amount:
100/s lets 100 requests pass at once, and then one every 10 ms. Write burst 1 to space them.
`
