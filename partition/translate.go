package partition

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Translate returns l as a limiter of requests of another type: f returns the request to pass
// to l. It is a [Refunder] and a [Settler]. f is called after the checks for negative permits
// and a done context, and must be safe for concurrent use. If l or f is nil, every request
// fails.
func Translate[R, Inner any](l Limiter[Inner], f func(R) Inner) Limiter[R] {
	switch {
	case backdoor.IsNil(l):
		return always[R](refuse(errTranslateNil))
	case f == nil:
		return always[R](refuse(errTranslateFunc))
	}
	return &composed[R]{
		of: func(r R, once bool) bound {
			if c, ok := l.(*composed[Inner]); ok {
				return c.of(f(r), once)
			}
			return bind(l, f(r))
		},
		statistics: func(r R) (core.Statistics, bool) { return statisticsOf(l, f(r)) },
		title:      func() string { return "translated " + backdoor.Describe(l) },
	}
}
