package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Stats are the counts of a [Player].
type Stats struct {
	Tally

	Shadowed map[string]int // requests that policies in shadow would have rejected, by policy

	ArrivalPeak, GrantPeak Peak
	Keys                   []Counts // keys by the numbers of the limiters, if PerKey
	PerKey                 bool
	Flows                  []Tally // tallies by the numbers of the flows; empty if no request has one
	Series                 *Series // nil if no series is wanted

	all Counts // counts of all keys together, in place of Keys
}

// Counts are what became of requests.
type Counts struct {
	Requests int `json:"requests"`
	Granted  int `json:"granted"` // those that waited included
	Queued   int `json:"queued"`  // granted after a wait; of a key, those that had to wait
	Rejected int `json:"rejected"`
}

// Tally is what became of all requests, or of those of one flow.
type Tally struct {
	Counts

	Waits Quantiles // waits of the requests that waited and were granted
}

func (t *Tally) grant(queued bool, wait int64) {
	t.Granted++
	if queued {
		t.Queued++
		t.Waits.add(wait)
	}
}

// KeyRow is a key and what became of its requests at one limit. Those that a policy in shadow would have rejected are among
// the rejected ones.
type KeyRow struct {
	Name
	Counts
}

// FlowRow is a flow and what became of its requests.
type FlowRow struct {
	Name
	Counts

	Wait Waits `json:"wait"`
}

// TopKeys returns the keys with the most rejections, then with the most requests, at most n of them.
func (s *Stats) TopKeys(p *Plan, n int) []KeyRow {
	keys := make([]KeyRow, len(s.Keys))
	for id, k := range s.Keys {
		keys[id] = KeyRow{p.Name(id), k}
	}
	slices.SortStableFunc(keys, func(a, b KeyRow) int {
		return cmp.Or(b.Rejected-a.Rejected, b.Requests-a.Requests, a.compare(b.Name))
	})
	return keys[:min(n, len(keys))]
}

// TopFlows returns the flows with the most requests, at most n of them.
func (s *Stats) TopFlows(p *Plan, n int) []FlowRow {
	flows := make([]FlowRow, len(s.Flows))
	for id := range s.Flows {
		f := &s.Flows[id]
		flows[id] = FlowRow{p.FlowName(id), f.Counts, f.Waits.Waits()}
	}
	slices.SortStableFunc(flows, func(a, b FlowRow) int { return cmp.Or(b.Requests-a.Requests, a.compare(b.Name)) })
	return flows[:min(n, len(flows))]
}

// flow returns the counts of a request's flow, or nil. The flow is that of the last limit that has one.
func (s *Stats) flow(q *Request) *Tally {
	for _, step := range slices.Backward(q.Steps) {
		if f := step.Flow; f != nil {
			for f.ID >= len(s.Flows) {
				s.Flows = append(s.Flows, Tally{})
			}
			return &s.Flows[f.ID]
		}
	}
	return nil
}

// key returns the counts of a step's key.
func (s *Stats) key(st *Step) *Counts {
	if !s.PerKey {
		return &s.all
	}
	for st.ID >= len(s.Keys) {
		s.Keys = append(s.Keys, Counts{})
	}
	return &s.Keys[st.ID]
}

func (s *Stats) arrive(q *Request) {
	s.Requests++
	s.ArrivalPeak.add(q.At)
	if f := s.flow(q); f != nil {
		f.Requests++
	}
	if s.Series != nil {
		s.Series.arrive(q.At)
	}
}

// queue counts a wait that starts, and dequeue one that ends.
func (s *Stats) queue(now int64, st *Step) {
	s.key(st).Queued++
	if s.Series != nil {
		s.Series.queue(now, +1)
	}
}

func (s *Stats) dequeue(now int64) {
	if s.Series != nil {
		s.Series.queue(now, -1)
	}
}

// pass counts a step that is passed.
func (s *Stats) pass(st *Step) {
	k := s.key(st)
	k.Requests++
	k.Granted++
}

// shadow counts a request that the policy of a step would have rejected.
func (s *Stats) shadow(st *Step) {
	if s.Shadowed == nil {
		s.Shadowed = make(map[string]int)
	}
	s.Shadowed[st.Rule.Policy]++
	k := s.key(st)
	k.Requests++
	k.Rejected++
}

// grant counts a request that has passed all steps.
func (s *Stats) grant(now int64, q *Request, queued bool) {
	s.Tally.grant(queued, now-q.At)
	if f := s.flow(q); f != nil {
		f.grant(queued, now-q.At)
	}
	s.GrantPeak.add(now)
	if s.Series != nil {
		s.Series.at(now).Grants++
	}
}

// reject counts a request that is rejected at a step.
func (s *Stats) reject(now int64, q *Request, st *Step) {
	s.Rejected++
	if f := s.flow(q); f != nil {
		f.Rejected++
	}
	k := s.key(st)
	k.Requests++
	k.Rejected++
	if s.Series != nil {
		s.Series.at(now).Rejections++
	}
}

// Peak finds the busiest second. Instants do not decrease.
type Peak struct {
	end  int64 // end of the current second
	now  int
	Most int
}

func (p *Peak) add(at int64) {
	if at >= p.end {
		p.end, p.now = (at/int64(time.Second)+1)*int64(time.Second), 0
	}
	p.now++
	p.Most = max(p.Most, p.now)
}

// Quantiles counts waits by their length: exactly as long as there are few different ones, then rounded up by at most a
// thousandth.
type Quantiles struct {
	Most    int64 // the longest
	n       int
	counts  map[int64]int // counts by the wait, which is rounded if rounded is true
	rounded bool
}

const maxExact = 1 << 16

func (q *Quantiles) add(d int64) {
	if q.counts == nil {
		q.counts = make(map[int64]int)
	}
	q.n++
	q.Most = max(q.Most, d)
	if q.rounded {
		d = class(d)
	}
	q.counts[d]++
	if len(q.counts) == maxExact && !q.rounded {
		exact := q.counts
		q.counts, q.rounded = make(map[int64]int), true
		for d, n := range exact {
			q.counts[class(d)] += n
		}
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

// At returns the quantile of a share, by the nearest rank.
func (q *Quantiles) At(share float64) time.Duration {
	if q.n == 0 {
		return 0
	}
	rank := max(min(int(share*float64(q.n)+0.999999), q.n), 1)
	for _, d := range slices.Sorted(maps.Keys(q.counts)) {
		if rank -= q.counts[d]; rank <= 0 {
			return time.Duration(min(d, q.Most))
		}
	}
	return time.Duration(q.Most)
}

// Waits are quantiles of waits, in seconds.
type Waits struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Waits returns the usual quantiles.
func (q *Quantiles) Waits() Waits {
	return Waits{q.At(0.5).Seconds(), q.At(0.9).Seconds(), q.At(0.99).Seconds(), time.Duration(q.Most).Seconds()}
}

// Series is the counts over time, in a bounded number of bins. When there are too many, adjacent bins are joined.
type Series struct {
	Width int64 // width of a bin, in nanoseconds
	Bins  []Bin
	End   int64 // later events are not recorded; 0 means that all are

	queued   int
	arrivals Peak
	later    Bin
}

// Bin is what happened in some time.
type Bin struct {
	Arrivals   int `json:"arrivals"`
	Grants     int `json:"grants"`
	Rejections int `json:"rejections"`
	Peak       int `json:"peak"`    // arrivals in the busiest second
	Queue      int `json:"waiting"` // the largest number of waiting requests
	Left       int `json:"left"`    // the least number of permits that [Series.Leave] has recorded; -1 if there is none
}

const maxBins = 600

// NewSeries returns a series that starts with bins of a width.
func NewSeries(width time.Duration) *Series { return &Series{Width: int64(width)} }

// at returns the bin of a time, which is mostly the last one: times do not decrease.
func (s *Series) at(now int64) *Bin {
	if s.End > 0 && now > s.End {
		return &s.later
	}
	if n := len(s.Bins); n > 0 {
		if since := now - int64(n-1)*s.Width; since >= 0 && since < s.Width {
			return &s.Bins[n-1]
		}
	}
	for now/s.Width >= maxBins {
		s.join()
	}
	for int64(len(s.Bins)) <= now/s.Width {
		s.Bins = append(s.Bins, Bin{Queue: s.queued, Left: -1})
	}
	return &s.Bins[now/s.Width]
}

// join makes one bin of each two.
func (s *Series) join() {
	joined := make([]Bin, 0, maxBins)
	for part := range slices.Chunk(s.Bins, 2) {
		b := part[0]
		if len(part) > 1 {
			b.join(part[1])
		}
		joined = append(joined, b)
	}
	s.Bins = joined
	s.Width *= 2
}

func (b *Bin) join(c Bin) {
	b.Arrivals += c.Arrivals
	b.Grants += c.Grants
	b.Rejections += c.Rejections
	b.Peak = max(b.Peak, c.Peak)
	b.Queue = max(b.Queue, c.Queue)
	if c.Left >= 0 {
		b.leave(c.Left)
	}
}

func (b *Bin) leave(left int) {
	if b.Left < 0 || left < b.Left {
		b.Left = left
	}
}

func (s *Series) arrive(now int64) {
	b := s.at(now)
	b.Arrivals++
	s.arrivals.add(now)
	b.Peak = max(b.Peak, s.arrivals.now)
}

// Leave records how many permits are left.
func (s *Series) Leave(now int64, left int) { s.at(now).leave(left) }

// queue changes the number of waiting requests. A bin has the largest.
func (s *Series) queue(now int64, by int) {
	b := s.at(now)
	s.queued += by
	b.Queue = max(b.Queue, s.queued)
}
