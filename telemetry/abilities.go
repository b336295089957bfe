package telemetry

import (
	"io"

	"github.com/sluice-go/sluice/core"
)

// What a limiter may be beside a core.Limiter. Whoever is given one finds out by asking for
// the interfaces, so that a view has to have those of what it is a view of, and no more.
const (
	reporter = 1 << iota
	idler
	replenisher
	closer
	refunder
)

// parts are a limiter as what it is.
type parts struct {
	*instrumented

	r core.Reporter
	d core.Idler
	p core.Replenisher
	c io.Closer
}

// refunds is an instrumented limiter that is a core.Refunder.
type refunds struct{ *instrumented }

func (r refunds) Refund(l core.Lease) { r.refund(l) }

// able returns i as a limiter that is what the limiter underneath is.
func able(i *instrumented) core.Limiter {
	p, abilities := parts{instrumented: i}, 0
	var ok bool
	if p.r, ok = i.l.(core.Reporter); ok {
		abilities |= reporter
	}
	if p.d, ok = i.l.(core.Idler); ok {
		abilities |= idler
	}
	if p.p, ok = i.l.(core.Replenisher); ok {
		abilities |= replenisher
	}
	if p.c, ok = i.l.(io.Closer); ok {
		abilities |= closer
	}
	_, refundable := i.l.(core.Refunder)
	switch {
	case refundable && abilities&closer != 0:
		return p.refundingCloser(abilities &^ closer)
	case refundable:
		return p.refunding(abilities)
	case abilities&closer != 0:
		return p.closing(abilities &^ closer)
	}
	return p.plain(abilities)
}

// plain is for what is no closer and refunds nothing.
func (p parts) plain(abilities int) core.Limiter {
	switch abilities {
	case reporter:
		return struct {
			*instrumented
			core.Reporter
		}{p.instrumented, p.r}
	case idler:
		return struct {
			*instrumented
			core.Idler
		}{p.instrumented, p.d}
	case reporter | idler:
		return struct {
			*instrumented
			core.Reporter
			core.Idler
		}{p.instrumented, p.r, p.d}
	case replenisher:
		return struct {
			*instrumented
			core.Replenisher
		}{p.instrumented, p.p}
	case reporter | replenisher:
		return struct {
			*instrumented
			core.Reporter
			core.Replenisher
		}{p.instrumented, p.r, p.p}
	case idler | replenisher:
		return struct {
			*instrumented
			core.Idler
			core.Replenisher
		}{p.instrumented, p.d, p.p}
	case reporter | idler | replenisher:
		return struct {
			*instrumented
			core.Reporter
			core.Idler
			core.Replenisher
		}{p.instrumented, p.r, p.d, p.p}
	}
	return p.instrumented
}

// closing is plain for what is an io.Closer too.
func (p parts) closing(abilities int) core.Limiter {
	switch abilities {
	case reporter:
		return struct {
			*instrumented
			core.Reporter
			io.Closer
		}{p.instrumented, p.r, p.c}
	case idler:
		return struct {
			*instrumented
			core.Idler
			io.Closer
		}{p.instrumented, p.d, p.c}
	case reporter | idler:
		return struct {
			*instrumented
			core.Reporter
			core.Idler
			io.Closer
		}{p.instrumented, p.r, p.d, p.c}
	case replenisher:
		return struct {
			*instrumented
			core.Replenisher
			io.Closer
		}{p.instrumented, p.p, p.c}
	case reporter | replenisher:
		return struct {
			*instrumented
			core.Reporter
			core.Replenisher
			io.Closer
		}{p.instrumented, p.r, p.p, p.c}
	case idler | replenisher:
		return struct {
			*instrumented
			core.Idler
			core.Replenisher
			io.Closer
		}{p.instrumented, p.d, p.p, p.c}
	case reporter | idler | replenisher:
		return struct {
			*instrumented
			core.Reporter
			core.Idler
			core.Replenisher
			io.Closer
		}{p.instrumented, p.r, p.d, p.p, p.c}
	}
	return struct {
		*instrumented
		io.Closer
	}{p.instrumented, p.c}
}

// refunding is plain for what is a core.Refunder too.
func (p parts) refunding(abilities int) core.Limiter {
	r := refunds{p.instrumented}
	switch abilities {
	case reporter:
		return struct {
			refunds
			core.Reporter
		}{r, p.r}
	case idler:
		return struct {
			refunds
			core.Idler
		}{r, p.d}
	case reporter | idler:
		return struct {
			refunds
			core.Reporter
			core.Idler
		}{r, p.r, p.d}
	case replenisher:
		return struct {
			refunds
			core.Replenisher
		}{r, p.p}
	case reporter | replenisher:
		return struct {
			refunds
			core.Reporter
			core.Replenisher
		}{r, p.r, p.p}
	case idler | replenisher:
		return struct {
			refunds
			core.Idler
			core.Replenisher
		}{r, p.d, p.p}
	case reporter | idler | replenisher:
		return struct {
			refunds
			core.Reporter
			core.Idler
			core.Replenisher
		}{r, p.r, p.d, p.p}
	}
	return r
}

// refundingCloser is plain for what is both too.
func (p parts) refundingCloser(abilities int) core.Limiter {
	r := refunds{p.instrumented}
	switch abilities {
	case reporter:
		return struct {
			refunds
			core.Reporter
			io.Closer
		}{r, p.r, p.c}
	case idler:
		return struct {
			refunds
			core.Idler
			io.Closer
		}{r, p.d, p.c}
	case reporter | idler:
		return struct {
			refunds
			core.Reporter
			core.Idler
			io.Closer
		}{r, p.r, p.d, p.c}
	case replenisher:
		return struct {
			refunds
			core.Replenisher
			io.Closer
		}{r, p.p, p.c}
	case reporter | replenisher:
		return struct {
			refunds
			core.Reporter
			core.Replenisher
			io.Closer
		}{r, p.r, p.p, p.c}
	case idler | replenisher:
		return struct {
			refunds
			core.Idler
			core.Replenisher
			io.Closer
		}{r, p.d, p.p, p.c}
	case reporter | idler | replenisher:
		return struct {
			refunds
			core.Reporter
			core.Idler
			core.Replenisher
			io.Closer
		}{r, p.r, p.d, p.p, p.c}
	}
	return struct {
		refunds
		io.Closer
	}{r, p.c}
}
