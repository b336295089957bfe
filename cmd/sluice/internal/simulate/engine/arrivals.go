package engine

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/spec"
)

// Arrivals are synthetic requests: poisson:100/s,10m, constant:100/s,10m, bursts:50/10s,10m or day:100/s,24h, which has the
// curve of a day over its time and the rate as its mean. They come from one client, or from 20 with a number as in
// poisson:100/s,10m,20: the second client sends half as many requests as the first, the third a third, and so on.
type Arrivals struct {
	kind    string
	n       int // requests per
	per     time.Duration
	span    time.Duration
	clients int
	seed    uint64
	takes   time.Duration // 0 means that requests have no duration
	random  bool          // takes is a mean
}

const wantArrivals = "poisson:100/s,10m, constant:100/s,10m, bursts:50/10s,10m or day:100/s,24h"

const maxClients = 1_000_000

// ParseArrivals reads such a text. The seed is for everything random.
func ParseArrivals(text string, seed uint64) (a Arrivals, err error) {
	kind, rest, ok := strings.Cut(text, ":")
	parts := strings.Split(rest, ",")
	if !ok || len(parts) < 2 || len(parts) > 3 || !slices.Contains([]string{"poisson", "constant", "bursts", "day"}, kind) {
		return a, fmt.Errorf("%q is not a pattern such as %s", text, wantArrivals)
	}
	l, err := spec.Parse(parts[0])
	if err != nil || l.Kind != spec.TokenBucket {
		return a, fmt.Errorf("%q: %q is not a rate such as 100/s", text, parts[0])
	}
	d, err := cli.ParseDuration(parts[1])
	if err != nil || d == 0 {
		return a, fmt.Errorf("%q: %q is not a duration such as 10m", text, parts[1])
	}
	clients := 1
	if len(parts) == 3 {
		if clients, err = strconv.Atoi(parts[2]); err != nil || clients < 1 || clients > maxClients {
			return a, fmt.Errorf("%q: %q is not a number of clients from 1 to %d", text, parts[2], maxClients)
		}
	}
	return Arrivals{kind: kind, n: l.Permits, per: l.Per, span: d, clients: clients, seed: seed}, nil
}

// Taking returns arrivals whose requests take as long as text says: 450ms, or exponential:450ms for random times with that
// mean. "" means no time.
func (a Arrivals) Taking(text string) (Arrivals, error) {
	if text == "" {
		return a, nil
	}
	mean, random := strings.CutPrefix(text, "exponential:")
	d, err := cli.ParseDuration(mean)
	if err != nil {
		return a, fmt.Errorf("%q is not a duration such as 450ms or exponential:450ms", text)
	}
	a.takes, a.random = d, random
	return a, nil
}

// HaveDurations reports whether the requests take any time.
func (a Arrivals) HaveDurations() bool { return a.takes > 0 }

// took returns a function that returns how long a request takes.
func (a Arrivals) took() func() int64 {
	if !a.random {
		return func() int64 { return int64(a.takes) }
	}
	r := rand.New(rand.NewPCG(a.seed, a.seed+2)) // so that durations do not change the times
	return func() int64 { return int64(min(r.ExpFloat64()*float64(a.takes), math.MaxInt64/2)) }
}

// Mean returns about how many requests there are.
func (a Arrivals) Mean() float64 { return float64(a.span) / float64(a.per) * float64(a.n) }

// Requests yields the requests. They are GET /.
func (a Arrivals) Requests(p *Plan) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		r := accesslog.Record{Client: []byte("synthetic"), Method: []byte("GET"), Path: []byte("/")}
		next, took := a.client(), a.took()
		for at := range a.times() {
			r.At, r.Took = at, took()
			if a.clients > 1 {
				r.Client = next()
			}
			if !yield(p.Request(&r)) {
				return
			}
		}
	}
}

// client returns a function that returns a client at random.
func (a Arrivals) client() func() []byte {
	r := rand.New(rand.NewPCG(a.seed, a.seed+1)) // so that the clients do not change the times
	names := make([][]byte, a.clients)
	sums := make([]float64, a.clients) // sums of the shares up to a client's
	sum := 0.0
	for i := range names {
		names[i] = strconv.AppendInt([]byte("client "), int64(i+1), 10)
		sum += 1 / float64(i+1)
		sums[i] = sum
	}
	return func() []byte {
		i, _ := slices.BinarySearch(sums, float64(r.Float64()*sum))
		return names[min(i, len(names)-1)]
	}
}

func (a Arrivals) times() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		switch a.kind {
		case "day":
			a.day(yield)
		case "poisson":
			r := rand.New(rand.NewPCG(a.seed, a.seed))
			mean := float64(a.per) / float64(a.n)
			for at := r.ExpFloat64() * mean; at < float64(a.span); at += float64(r.ExpFloat64() * mean) { // not fused, so alike everywhere
				if !yield(int64(at)) {
					return
				}
			}
		case "constant":
			for i := 0; ; i++ {
				at := float64(i) * float64(a.per) / float64(a.n)
				if at >= math.MaxInt64 || int64(at) >= int64(a.span) || !yield(int64(at)) {
					return
				}
			}
		case "bursts":
			a.bursts(yield)
		}
	}
}

func (a Arrivals) bursts(yield func(int64) bool) {
	for at := time.Duration(0); ; at += a.per {
		for range a.n {
			if !yield(int64(at)) {
				return
			}
		}
		if a.per >= a.span-at { // at plus per may overflow
			return
		}
	}
}

// hours are how busy the hours of a day are, from midnight to midnight.
var hours = [...]float64{4, 3, 2, 2, 2, 3, 5, 8, 11, 13, 14, 14, 13, 14, 15, 14, 13, 12, 12, 13, 14, 12, 9, 6, 4}

// day yields random times at the rate of each hour. It thins out a Poisson process at the rate of the busiest hour: a
// request stays with a probability of the rate of its hour divided by that of the busiest hour.
func (a Arrivals) day(yield func(int64) bool) {
	area, most := 0.0, slices.Max(hours[:])
	for i := range hours[1:] {
		area += (hours[i] + hours[i+1]) / 2
	}
	length := float64(len(hours) - 1)
	r := rand.New(rand.NewPCG(a.seed, a.seed))
	mean := float64(a.per) / float64(a.n) * area / length / most
	for at := r.ExpFloat64() * mean; at < float64(a.span); at += float64(r.ExpFloat64() * mean) {
		hour := at / float64(a.span) * length
		i := min(int(hour), len(hours)-2)
		rate := hours[i] + float64((hours[i+1]-hours[i])*(hour-float64(i)))
		if float64(r.Float64()*most) < rate && !yield(int64(at)) {
			return
		}
	}
}
