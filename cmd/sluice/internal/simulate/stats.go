package simulate

import (
	"slices"
	"time"
)

// stats is an observer that counts.
type stats struct {
	Requests, Granted, Queued, Rejected int

	waits            quantiles
	arrivals, grants peak
	perKey           bool
	keys             []keyCount // by id, if perKey
	series           *series    // nil: not wanted
}

// keyCount is what became of the requests of one key at one limit.
type keyCount struct{ requests, passed, queued, rejected int }

func (s *stats) key(id int) *keyCount {
	for id >= len(s.keys) {
		s.keys = append(s.keys, keyCount{})
	}
	return &s.keys[id]
}

func (s *stats) arrived(q *request) {
	s.Requests++
	s.arrivals.add(q.at)
	if s.series != nil {
		s.series.at(q.at).arrivals++
	}
}

func (s *stats) queued(now int64, st *step) {
	if s.perKey {
		s.key(st.id).queued++
	}
	if s.series != nil {
		s.series.queue(now, +1)
	}
}

func (s *stats) dequeued(now int64, _ *step) {
	if s.series != nil {
		s.series.queue(now, -1)
	}
}

func (s *stats) passed(st *step) {
	if s.perKey {
		k := s.key(st.id)
		k.requests++
		k.passed++
	}
}

func (s *stats) granted(now int64, q *request, queued bool) {
	s.Granted++
	if queued {
		s.Queued++
		s.waits.add(now - q.at)
	}
	s.grants.add(now)
	if s.series != nil {
		s.series.at(now).grants++
	}
}

func (s *stats) rejected(now int64, _ *request, st *step) {
	s.Rejected++
	if s.perKey {
		k := s.key(st.id)
		k.requests++
		k.rejected++
	}
	if s.series != nil {
		s.series.at(now).rejections++
	}
}

// peak finds the busiest second. Instants do not decrease.
type peak struct {
	second    int64
	now, most int
}

func (p *peak) add(at int64) {
	if s := at / int64(time.Second); s != p.second {
		p.second, p.now = s, 0
	}
	p.now++
	p.most = max(p.most, p.now)
}

// quantiles has waits: each of them while they are few, and then their number in classes that are a thousandth wide.
type quantiles struct {
	exact   []int64
	classes map[int64]int // from the wait, rounded up to its class
	n       int
	most    int64
}

const mostExact = 1 << 20

func (q *quantiles) add(d int64) {
	q.n++
	q.most = max(q.most, d)
	if q.classes != nil {
		q.classes[class(d)]++
		return
	}
	if q.exact = append(q.exact, d); len(q.exact) == mostExact {
		q.classes = make(map[int64]int)
		for _, d := range q.exact {
			q.classes[class(d)]++
		}
		q.exact = nil
	}
}

// class rounds up, by at most a thousandth.
func class(d int64) int64 {
	width := int64(1)
	for d/width >= 2000 {
		width *= 2
	}
	return (d + width - 1) / width * width
}

// at returns the quantile of a share, by the nearest rank.
func (q *quantiles) at(share float64) time.Duration {
	if q.n == 0 {
		return 0
	}
	rank := min(int(share*float64(q.n)+0.999999), q.n)
	if q.classes == nil {
		slices.Sort(q.exact)
		return time.Duration(q.exact[max(rank, 1)-1])
	}
	values := make([]int64, 0, len(q.classes))
	for d := range q.classes {
		values = append(values, d)
	}
	slices.Sort(values)
	seen := 0
	for _, d := range values {
		if seen += q.classes[d]; seen >= rank {
			return time.Duration(min(d, q.most))
		}
	}
	return time.Duration(q.most)
}

// series is the counts over time, in a bounded number of bins: when there are too many, each two become one.
type series struct {
	width  int64
	bins   []bin
	queued int
}

type bin struct{ arrivals, grants, rejections, queue int }

const mostBins = 1200

func newSeries() *series { return &series{width: int64(time.Second)} }

func (s *series) at(now int64) *bin {
	for now/s.width >= mostBins {
		half := make([]bin, 0, mostBins)
		for i := 0; i < len(s.bins); i += 2 {
			b := s.bins[i]
			if i+1 < len(s.bins) {
				c := s.bins[i+1]
				b = bin{b.arrivals + c.arrivals, b.grants + c.grants, b.rejections + c.rejections, max(b.queue, c.queue)}
			}
			half = append(half, b)
		}
		s.bins = half
		s.width *= 2
	}
	for int64(len(s.bins)) <= now/s.width {
		s.bins = append(s.bins, bin{queue: s.queued})
	}
	return &s.bins[now/s.width]
}

// queue changes the number of waiting requests. A bin has the largest.
func (s *series) queue(now int64, by int) {
	b := s.at(now)
	s.queued += by
	b.queue = max(b.queue, s.queued)
}
