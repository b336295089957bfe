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
	visits  []visit // one for each descriptor
	over    bool    // the request is over the limit
}

// visit is a descriptor while it is decided.
type visit struct {
	rule      *rule // nil if no rule applies
	terms     *terms
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
func (v *visit) match(d *domain, entries []*envoy.RateLimitDescriptor_Entry) {
	n := &d.root
	for _, e := range entries {
		if n = n.find(e.GetKey(), e.GetValue()); n == nil {
			return
		}
	}
	if n.rule == nil {
		return
	}
	v.rule = d.live[n.rule]
	v.terms = v.rule.terms.Load()
	v.limit = v.terms.limit
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
	v.rule, v.terms, v.limit = d.override, d.override.terms.Load(), l
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
func (v *visit) asks() bool { return v.rule != nil && !v.terms.unlimited && !v.limit.bans() }

// enforced reports whether the descriptor can reject the request.
func (v *visit) enforced() bool { return !v.terms.shadow && !v.terms.quota && !v.givesHits }

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
		d.service.unusable(errLate)
	}
	d.finish(within, err)
	return err
}

var errLate = errors.New("no reply within the Timeout")

// chore is what is left to do at a limiter. It returns the time until the limiter is reset, or 0 if that has not changed.
type chore struct {
	of *visit
	do func() (reset time.Duration)
}

// finish gives back what is not to be kept, and takes what is left of limits. left is the error of a client that has left.
func (d *decision) finish(ctx context.Context, left error) {
	var chores []chore
	var lanes [][]int // each chore is on its own
	now := time.Now()
	for i := len(d.visits) - 1; i >= 0; i-- {
		v := &d.visits[i]
		var do func() time.Duration
		switch {
		case left == nil:
			do = v.finish(d, now)
		case v.outcome == granted && !v.givesHits:
			do = v.take.refund
		}
		switch {
		case do == nil:
		case d.service.stored():
			lanes = append(lanes, []int{len(chores)})
			chores = append(chores, chore{v, do})
		default:
			chore{v, do}.done(do())
		}
	}
	together(ctx, lanes, func(i int) time.Duration { return chores[i].do() },
		func(i int, reset time.Duration) { chores[i].done(reset) }, func(int, time.Duration) {})
}

func (c chore) done(reset time.Duration) {
	if reset > 0 {
		c.of.reset = reset
	}
}

// lookForClient is after how many descriptors a decision in memory looks whether the client is still there.
const lookForClient = 256

// ask asks the limiters of all descriptors: in memory one after the other, and at a store all at once, so that a request
// takes one round trip.
func (d *decision) ask(ctx context.Context) {
	var all []int
	for i := range d.visits {
		v := &d.visits[i]
		switch {
		case v.rule != nil && !v.terms.unlimited && v.limit.bans():
			v.outcome = rejected
		case !v.asks():
		case d.service.stored():
			all = append(all, i)
		case i%lookForClient == 0 && ctx.Err() != nil:
			return
		default:
			v.decided(d, v.rule.tryAcquire(v.key, v.permits())) //nolint:contextcheck // it does not wait
		}
	}
	if len(all) == 1 {
		v := &d.visits[all[0]]
		v.decided(d, v.rule.tryAcquire(v.key, v.permits())) //nolint:contextcheck // as below
		return
	}
	d.askStore(ctx, all)
}

// askStore asks about several descriptors. Those of one limiter are asked in their order.
func (d *decision) askStore(ctx context.Context, all []int) {
	type limiter struct {
		rule *rule
		key  key
	}
	var lanes [][]int
	laneOf := make(map[limiter]int, len(all))
	for _, i := range all {
		v := &d.visits[i]
		v.outcome = unanswered // until there is an answer
		at := limiter{v.rule, v.key}
		lane, ok := laneOf[at]
		if !ok {
			lane = len(lanes)
			laneOf[at], lanes = lane, append(lanes, nil)
		}
		lanes[lane] = append(lanes[lane], i)
	}
	together(ctx, lanes, func(i int) take {
		if ctx.Err() != nil {
			return take{}
		}
		v := &d.visits[i]
		return v.rule.tryAcquire(v.key, v.permits()) //nolint:contextcheck // a call of the store may be for many requests
	}, func(i int, t take) {
		if t.from != nil {
			d.visits[i].decided(d, t)
		}
	}, func(_ int, t take) { t.refund() })
}

// permits returns the permits to ask for: none if hits are returned, which only looks.
func (v *visit) permits() int {
	if v.givesHits {
		return 0
	}
	return number(v.hits)
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
		d.service.unusable(err)
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
func (v *visit) finish(d *decision, now time.Time) (do func() time.Duration) {
	if v.rule == nil {
		return nil
	}
	c := &v.rule.counts
	if v.name != "" {
		c = v.rule.countsOf(v.name)
	}
	switch {
	case v.terms.unlimited:
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
		v.remains += number(v.hits) // what it was before
		do = v.take.refund
	case v.outcome == granted:
		c.granted.Add(v.hits)
	case v.outcome == rejected:
		if v.terms.shadow || v.terms.quota {
			c.shadowed.Add(v.hits)
			d.service.logShadowed(v)
		} else {
			c.rejected.Add(v.hits)
		}
		if v.hits > 1 && v.take.from != nil {
			v.remains, do = 0, v.take.drain
		}
	}
	if left := v.limit.untilEnd(now); left > 0 && v.outcome != free && v.reset <= 0 {
		v.reset = left
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
