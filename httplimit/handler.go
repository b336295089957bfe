package httplimit

import (
	"context"
	"net/http"
	"sync/atomic"
)

// handler is a handler under policies.
type handler struct {
	limits *Limits
	next   http.Handler
	names  []string // nil: the global policy alone

	mux    *http.ServeMux // inside next; nil: none
	exempt bool           // next is exempt

	named atomic.Pointer[named] // what the names stood for when it was asked last
}

// named are the policies that a handler's names stand for.
type named struct {
	by       *terms
	policies []*policy
	plain    bool // handlers get the ResponseWriter and the body as they are
}

func (h *handler) policies(t *terms) *named {
	n := h.named.Load()
	if n == nil || n.by != t {
		n = &named{t, t.named(h.names), t.Headers == RetryAfterOnly}
		for _, p := range n.policies {
			n.plain = n.plain && p.plain()
		}
		h.named.Store(n)
	}
	return n
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pattern, leave := h.lookAhead(r)
	if leave {
		h.next.ServeHTTP(w, r)
		return
	}
	ctx := r.Context()
	var first *arrival // nil: the request has been in a wrapper before
	f := frame{visit: visiting(ctx, h.limits)}
	if f.visit == nil {
		first = h.limits.arrival(r)
		f.visit = &first.visit
	} else if !f.visit.exempt {
		f.number = f.visit.nextFrame()
	}
	v := f.visit
	if v.exempt {
		if first != nil {
			r = first.carry(r) //nolint:contextcheck // made of the request's
		}
		h.next.ServeHTTP(w, r)
		return
	}
	if pattern != "" && pattern != r.Pattern {
		r = first.copyOf(r)
		r.Pattern = pattern // as the mux will set it
	}
	f.request = r
	defer f.end(ctx)
	named := h.policies(v.terms)
	no := v.ask(ctx, f.number, r, named.policies, true)
	if first != nil {
		r = first.carry(r) //nolint:contextcheck // made of the request's
		f.request = r
	}
	if no != nil {
		v.undo(ctx)
		no.answer(w, r)
		return
	}
	if !named.plain {
		w, r = f.dress(w, r)
	}
	f.entered = true
	h.next.ServeHTTP(w, r)
	f.returned = true
}

// lookAhead finds out where the request would go: to which pattern of the mux, and whether
// it is to be left alone.
func (h *handler) lookAhead(r *http.Request) (pattern string, leave bool) {
	if h.exempt || h.mux == nil {
		return "", h.exempt
	}
	next, pattern := h.mux.Handler(r)
	_, leave = h.limits.seeThrough(next)
	return pattern, leave
}

// arrival begins a request's visit.
func (l *Limits) arrival(r *http.Request) *arrival {
	a := new(arrival)
	a.Context, a.terms, a.frames = r.Context(), l.terms.Load(), 1
	if skip := a.terms.Skip; skip != nil {
		a.exempt = skip(r)
	}
	return a
}

// frame is one wrapper's part in a visit.
type frame struct {
	visit    *visit
	number   int32
	request  *http.Request // as the policies saw it
	response *response     // nil: the handler writes past us
	entered  bool          // the handler was called
	returned bool          // and has returned
}

// end gives back what is still held: also when the handler, or whatever of the user's was
// called before it, panics.
func (f *frame) end(ctx context.Context) {
	if !f.entered {
		f.visit.undo(ctx)
		return
	}
	status := http.StatusOK
	switch {
	case f.response != nil && f.response.status != 0:
		status = f.response.status
	case !f.returned:
		status = http.StatusInternalServerError
	}
	f.visit.settle(ctx, f.number, f.request, status)
}

// exempt is a handler that no policy applies to.
type exempt struct {
	limits *Limits
	next   http.Handler
}

func (e *exempt) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := visiting(r.Context(), e.limits)
	if v == nil || !v.exempt {
		inside := &visit{Context: r.Context(), exempt: true, known: true}
		if v == nil {
			inside.terms = e.limits.terms.Load()
		} else {
			inside.terms = v.terms
			v.undo(r.Context())
			v.untell(w.Header())
			v.lift()
		}
		r = r.WithContext(inside) //nolint:contextcheck // made of the request's
	}
	e.next.ServeHTTP(w, r)
}
