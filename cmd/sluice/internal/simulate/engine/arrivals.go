package engine

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/duration"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/spec"
)

// Arrivals are made-up requests: poisson:100/s,10m, constant:100/s,10m or bursts:50/10s,10m.
type Arrivals struct {
	kind string
	n    int // requests per
	per  time.Duration
	span time.Duration
	seed uint64
}

// ParseArrivals reads such a text. The seed is that of all that is random.
func ParseArrivals(text string, seed uint64) (a Arrivals, err error) {
	kind, rest, ok := strings.Cut(text, ":")
	rate, span, ok2 := strings.Cut(rest, ",")
	if !ok || !ok2 || kind != "poisson" && kind != "constant" && kind != "bursts" {
		return a, fmt.Errorf("%q, want poisson:100/s,10m or constant:100/s,10m or bursts:50/10s,10m", text)
	}
	l, err := spec.Parse(rate)
	if err != nil || l.Kind != spec.TokenBucket {
		return a, fmt.Errorf("%q: %q is not a rate, want one such as 100/s", text, rate)
	}
	d, err := duration.Parse(span)
	if err != nil || d == 0 {
		return a, fmt.Errorf("%q: %q is not a duration, want one such as 10m", text, span)
	}
	return Arrivals{kind, l.Permits, l.Per, d, seed}, nil
}

// Requests yields the requests. They are GET / of one client.
func (a Arrivals) Requests(p *Plan) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		r := accesslog.Record{Client: []byte("made up"), Method: []byte("GET"), Path: []byte("/")}
		for at := range a.times() {
			r.At = at
			if !yield(p.Request(&r)) {
				return
			}
		}
	}
}

func (a Arrivals) times() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		switch a.kind {
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
				at := int64(float64(i) * float64(a.per) / float64(a.n))
				if at >= int64(a.span) || !yield(at) {
					return
				}
			}
		case "bursts":
			for at := int64(0); at < int64(a.span); at += int64(a.per) {
				for range a.n {
					if !yield(at) {
						return
					}
				}
			}
		}
	}
}
