package rlslimit

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/redislimit"
)

// decision is a request while it is decided.
type decision struct {
	service *Service
	domain  *domain // nil if no domain has the name
	visits  []visit // one per descriptor
	over    bool    // the request is over the limit
	work    int     // since ctx was last polled
}

// pollEvery is how much work a decision does before it polls whether the client is still there. Each descriptor is work, and each
// lookup of an entry, and each wildcard and each replaced name that is compared.
const pollEvery = 256

// worked counts work, and returns ctx's error if it is time to poll it.
func (d *decision) worked(ctx context.Context, n int) error {
	if d.work += n; d.work < pollEvery {
		return nil
	}
	d.work = 0
	return ctx.Err()
}

// visit is a descriptor while it is decided.
type visit struct {
	rule      *rule // nil if no rule applies
	config    *ruleConfig
	limit     allowance
	name      string // with values, for the counts; "" means the rule's
	key       key
	hits      uint64
	givesHits bool // is_negative_hits: the hits are returned

	take    take
	outcome outcome
	remains int
	reset   time.Duration
}

// outcome is how a descriptor was decided.
type outcome uint8

const (
	free       outcome = iota // it has no limit
	granted                   // the lease has the hits
	rejected                  // over the limit
	unanswered                // the store did not decide
)

// match finds the rule of the entries.
func (d *decision) match(v *visit, entries []*envoy.RateLimitDescriptor_Entry) {
	n := &d.domain.root
	for _, e := range entries {
		var compared int
		n, compared = n.find(e.GetKey(), e.GetValue())
		d.work += 1 + compared
		if n == nil {
			return
		}
	}
	if n.rule == nil {
		return
	}
	v.rule = d.domain.live[n.rule]
	v.config = v.rule.config.Load()
	v.limit = v.config.limit
	parts := n.rule.valueParts
	v.key = keyOf(len(parts), func(i int) string { return entries[parts[i]].GetValue() })
	v.name = n.rule.nameFor(entries)
}

// overrideLimit sets a limit that comes with the request.
func (v *visit) overrideLimit(d *domain, descriptor *envoy.RateLimitDescriptor, l allowance) {
	var b strings.Builder
	for _, e := range descriptor.GetEntries() {
		writeText(&b, e.GetKey())
		writeText(&b, e.GetValue())
	}
	v.rule, v.config, v.limit = d.override, d.override.config.Load(), l
	v.key = key{values: policy.Key(b.String()), override: overrideOf(l)}
}

// keyOf returns the key of n values.
func keyOf(n int, value func(int) string) key {
	switch n {
	case 0:
		return key{}
	case 1:
		return key{values: policy.Key(value(0))}
	}
	var b strings.Builder
	for i := range n {
		writeText(&b, value(i))
	}
	return key{values: policy.Key(b.String())}
}

// writeText writes a text so that a sequence of texts cannot be mistaken for another one.
func writeText(b *strings.Builder, text string) {
	b.WriteString(strconv.Itoa(len(text)))
	b.WriteByte(':')
	b.WriteString(text)
}

// nameFor returns the name of a rule with the values that its metrics want, or "".
func (rc *ruleConfig) nameFor(entries []*envoy.RateLimitDescriptor_Entry) string {
	wanted := rc.detailed
	for _, e := range rc.path {
		wanted = wanted || e.inMetric && !e.shared && e.match != exact
	}
	if !wanted {
		return ""
	}
	var b strings.Builder
	for i, e := range rc.path {
		if i > 0 {
			b.WriteByte('.')
		}
		own := e
		if !e.shared && (rc.detailed || e.inMetric) {
			own.value = entries[i].GetValue()
		}
		b.WriteString(own.name())
	}
	return b.String()
}

// asks reports whether a limiter decides about the descriptor.
func (v *visit) asks() bool { return v.rule != nil && !v.config.unlimited && !v.limit.bans() }

// enforced reports whether the descriptor can reject the request.
func (v *visit) enforced() bool { return !v.config.shadow && !v.config.quota && !v.givesHits }

// decide takes the hits of all descriptors, or of none. If ctx is done it takes none and returns ctx's error. With a store
// it returns within the service's Timeout.
func (d *decision) decide(ctx context.Context) error {
	within := ctx
	if d.service.stored() {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, d.service.options.Shared.Timeout)
		defer cancel()
	}
	d.ask(within)
	late := false
	for i := range d.visits {
		switch v := &d.visits[i]; v.outcome {
		case rejected:
			d.over = d.over || v.enforced()
		case unanswered:
			d.over = d.over || v.enforced() && !d.domain.failOpen
			late = late || v.take.from == nil
		case free, granted:
		}
	}
	err := ctx.Err()
	if late && err == nil {
		d.service.logUnreachable(errLate)
	}
	d.finish(within, err)
	return err
}

var errLate = errors.New("no reply within the Timeout")

// chore is work that is left to do at a limiter. It returns the time until the limiter is reset, or 0 if that has not changed.
type chore struct {
	of *visit
	do func() (reset time.Duration)
}

// finish returns the hits that are not to be kept, and drains limits. left is the error of a client that has disconnected.
func (d *decision) finish(ctx context.Context, left error) {
	var chores []chore
	for i := len(d.visits) - 1; i >= 0; i-- {
		v := &d.visits[i]
		var do func() time.Duration
		switch {
		case left == nil:
			do = v.finish(d)
		case v.outcome == granted && !v.givesHits:
			do = v.take.refund
		}
		if do != nil {
			chores = append(chores, chore{v, do})
		}
	}
	done := func(i int, reset time.Duration) {
		if reset > 0 {
			chores[i].of.reset = reset
		}
	}
	if d.service.stored() {
		together(ctx, len(chores), func(i int) time.Duration { return chores[i].do() }, done, func(int, time.Duration) {})
		return
	}
	for i, c := range chores {
		done(i, c.do())
	}
}

// ask asks the limiters of all descriptors: in memory one after the other, and at a store several concurrently, so that a
// request takes one round trip.
func (d *decision) ask(ctx context.Context) {
	var stored []*visit
	for i := range d.visits {
		v := &d.visits[i]
		switch {
		case v.rule != nil && !v.config.unlimited && v.limit.bans():
			v.outcome = rejected
		case !v.asks():
		case d.service.stored():
			v.outcome = unanswered // until there is a reply
			stored = append(stored, v)
		case d.worked(ctx, 1) != nil:
			return
		default:
			v.decided(d, v.tryAcquire()) //nolint:contextcheck // it does not wait
		}
	}
	if len(stored) == 1 {
		stored[0].decided(d, stored[0].tryAcquire()) //nolint:contextcheck // as below
		return
	}
	together(ctx, len(stored), func(i int) take {
		if ctx.Err() != nil {
			return take{}
		}
		return stored[i].tryAcquire() //nolint:contextcheck // a call of the store may be for many requests
	}, func(i int, t take) {
		if t.from != nil {
			stored[i].decided(d, t)
		}
	}, func(_ int, t take) { t.refund() })
}

// tryAcquire asks the limiter. It asks for no permits if hits are returned, which only looks.
func (v *visit) tryAcquire() take {
	n := number(v.hits)
	if v.givesHits {
		n = 0
	}
	return v.rule.tryAcquire(v.key, n)
}

func number(hits uint64) int { return int(min(hits, math.MaxInt)) }

// decided notes how the limiter decided.
func (v *visit) decided(d *decision, t take) {
	v.take = t
	err := t.lease.Err()
	switch {
	case err == nil:
		v.outcome = granted
	case errors.Is(err, redislimit.ErrStore):
		v.outcome = unanswered
		d.service.logUnreachable(err)
		return
	case errors.Is(err, core.ErrClosed): // the rule has gone since
		v.outcome = free
		return
	default:
		v.outcome = rejected
	}
	v.remains, _ = core.Remaining.From(t.lease)
	v.reset, _ = core.ResetAfter.From(t.lease)
}

// finish counts how the descriptor was decided, and returns the chore that is left, or nil.
func (v *visit) finish(d *decision) (do func() time.Duration) {
	if v.rule == nil {
		return nil
	}
	c := &v.rule.counts
	if v.name != "" {
		c = v.rule.countsOf(v.name)
	}
	switch {
	case v.config.unlimited:
		c.granted.Add(v.hits)
	case v.outcome == unanswered:
		c.unanswered.Add(1)
		if !v.enforced() || d.domain.failOpen {
			v.remains = number(uint64(v.limit.perUnit()))
		}
	case v.givesHits && d.over:
	case v.givesHits:
		if v.take.from != nil {
			do = v.giveBack()
		}
		c.givenBack.Add(v.hits)
	case v.outcome == granted && d.over:
		v.remains += number(v.hits) // the number before the request
		do = v.take.refund
	case v.outcome == granted:
		c.granted.Add(v.hits)
	case v.outcome == rejected:
		if v.config.shadow || v.config.quota {
			c.shadowed.Add(v.hits)
			d.service.logShadowed(v)
		} else {
			c.rejected.Add(v.hits)
		}
		if v.hits > 1 && v.take.from != nil {
			v.remains, do = 0, v.take.drain
		}
	}
	if v.outcome != free && v.reset <= 0 {
		v.reset = v.limit.untilEnd()
	}
	return do
}

// giveBack returns a chore that returns the hits to the limiter, which has been looked at. So it exists, also in a process that
// has taken nothing.
func (v *visit) giveBack() func() time.Duration {
	t, hits, most := v.take, number(v.hits), number(uint64(v.limit.perUnit()))
	v.remains += min(hits, most-min(v.remains, most))
	return func() time.Duration {
		if l, ok := t.from.Get(t.key); ok {
			if f, ok := l.(*follower); ok {
				f.GiveBack(hits)
			}
		}
		return 0
	}
}
