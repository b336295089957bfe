package ioreader

import (
	"math"
	"time"
)

// Progress reports how far a copy has come.
type Progress struct {
	Bytes     int64         // bytes copied so far
	Total     int64         // CopyOptions.Total; 0 means unknown
	Elapsed   time.Duration // time since the copy started
	Remaining time.Duration // estimated time for the remaining bytes at Rate; 0 means none or unknown
	Rate      float64       // bytes per second, averaged over about the last second
}

const (
	reportEvery = 100 * time.Millisecond
	history     = 10 // reports that Rate looks back on
)

// tracker computes Progress from the slices that have been copied.
type tracker struct {
	onProgress func(Progress)
	total      int64
	start      time.Time

	bytes    int64
	reported time.Duration // time of the last report, since start
	marks    [history]mark
	next     int // index of the oldest mark, which the next one replaces
}

// mark is how far the copy was at a given time.
type mark struct {
	at    time.Duration
	bytes int64
}

func newTracker(total int64, onProgress func(Progress)) *tracker {
	return &tracker{onProgress: onProgress, total: total, start: time.Now()}
}

func (t *tracker) passed(n int) {
	t.bytes += int64(n)
	if now := time.Since(t.start); now-t.reported >= reportEvery {
		t.report(now)
	}
}

func (t *tracker) finish() { t.report(time.Since(t.start)) }

func (t *tracker) report(now time.Duration) {
	oldest := t.marks[t.next]
	t.marks[t.next] = mark{now, t.bytes}
	t.next = (t.next + 1) % history
	t.reported = now
	p := Progress{Bytes: t.bytes, Total: t.total, Elapsed: now}
	if span := now - oldest.at; span > 0 {
		p.Rate = float64(t.bytes-oldest.bytes) / span.Seconds()
	}
	if left := t.total - t.bytes; left > 0 && p.Rate > 0 {
		seconds := float64(left) / p.Rate
		p.Remaining = time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
	}
	t.onProgress(p)
}
