package rlslimit

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// decision is a request while it is decided. After each step of work for a descriptor it finds out whether the client has left.
type decision struct {
	service *Service
	domain  *domain // nil if no domain has the name
	visits  []visit // one per descriptor, or as many as the descriptor has limits
	over    bool    // the request is over the limit
}

// visit is a descriptor while it is decided, or one of its limits.
type visit struct {
	isOther   bool  // it is of a further limit of the descriptor before
	rule      *rule // nil if no rule applies
	config    *ruleConfig
	limit     *allowance
	name      string // with values, for the counts; "" means the rule's
	key       key
	hits      uint64
	givesHits bool // is_negative_hits: the hits are returned
	usedUp    bool // this process knows that the limit rejects them

	verdict
}

// verdict is how a descriptor was decided.
type verdict struct {
	outcome outcome
	lease   core.Lease // the hits, or what a rejected descriptor has taken instead
	remains int
	reset   time.Duration
	err     error // why the store did not decide
}

// outcome is the result of a verdict.
type outcome uint8

const (
	free      outcome = iota // it has no limit
	granted                  // the lease has the hits
	rejected                 // over the limit
	returns                  // the hits are to be returned to the limit, which is not asked for any
	spared                   // not asked, because another descriptor is over its limit
	undecided                // the store did not decide
)

// find finds the rule of each descriptor. Its errors are gRPC statuses.
func (d *decision) find(ctx context.Context, req *ratelimit.RateLimitRequest) error {
	for _, descriptor := range req.GetDescriptors() {
		v := visit{hits: hitsOf(req, descriptor), givesHits: descriptor.GetIsNegativeHits()}
		var others []*ruleConfig
		if l := descriptor.GetLimit(); l != nil {
			limit, err := units{l.GetRequestsPerUnit(), timeUnit(l.GetUnit()), max(l.GetUnitMultiplier().GetValue(), 1)}.allowance()
			if err != nil {
				return status.Error(codes.InvalidArgument, err.Error())
			}
			if d.domain != nil {
				v.overrideLimit(d.domain, descriptor, &limit)
			}
		} else if d.domain != nil {
			others = v.match(d.domain, descriptor.GetEntries())
			if v.rule == nil {
				d.service.passesUnmatched(d.domain, descriptor.GetEntries())
			}
		}
		d.visits = append(d.visits, v)
		for _, rc := range others {
			v.isOther = true
			v.follow(d.domain, rc)
			d.visits = append(d.visits, v)
		}
		if err := ctx.Err(); err != nil {
			return status.FromContextError(err).Err()
		}
	}
	return status.FromContextError(d.replace(ctx)).Err()
}

// hitsOf returns the hits of a descriptor: its own, or those of the request.
func hitsOf(req *ratelimit.RateLimitRequest, descriptor *envoy.RateLimitDescriptor) uint64 {
	if own := descriptor.GetHitsAddend(); own != nil {
		return own.GetValue()
	}
	return uint64(max(req.GetHitsAddend(), 1))
}

// replace leaves out the limits that others replace. It returns ctx's error if ctx is done.
func (d *decision) replace(ctx context.Context) error {
	replaced := make(map[string]bool)
	seen := make(map[*ruleConfig]bool) // many descriptors may have one rule
	for i := range d.visits {
		rc := d.visits[i].config
		if rc == nil || len(rc.replaces) == 0 || seen[rc] {
			continue
		}
		seen[rc] = true
		for _, name := range rc.replaces {
			replaced[name] = true
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for i := range d.visits {
		if v := &d.visits[i]; v.config != nil && !v.config.unlimited && replaced[v.config.limitName] {
			*v = visit{hits: v.hits}
		}
	}
	return nil
}

// match finds the rule of the entries. It returns the further limits of the descriptor.
func (v *visit) match(d *domain, entries []*envoy.RateLimitDescriptor_Entry) (others []*ruleConfig) {
	n := &d.root
	for _, e := range entries {
		if n = n.find(e.GetKey(), e.GetValue()); n == nil {
			return nil
		}
	}
	if n.rule == nil {
		return nil
	}
	v.follow(d, n.rule)
	values := make([]string, len(n.rule.valueParts))
	for i, part := range n.rule.valueParts {
		values[i] = entries[part].GetValue()
	}
	v.key = keyOf(values)
	v.name = n.rule.nameFor(entries)
	return n.rule.others
}

// follow sets the rule of the visit.
func (v *visit) follow(d *domain, rc *ruleConfig) {
	v.rule = d.live[rc]
	v.config = v.rule.config.Load()
	v.limit = &v.config.limit
}

// descriptors returns the visits of each descriptor.
func (d *decision) descriptors() iter.Seq[[]visit] {
	return func(yield func([]visit) bool) {
		for from := 0; from < len(d.visits); {
			to := from + 1
			for to < len(d.visits) && d.visits[to].isOther {
				to++
			}
			if !yield(d.visits[from:to]) {
				return
			}
			from = to
		}
	}
}

// decider returns the visit whose limit decides about a descriptor: one that rejects or, if none does, the one that has the least
// left. Of several such limits it is the one that is reset last.
func decider(visits []visit) *visit {
	best := &visits[0]
	for i := range visits {
		v := &visits[i]
		if c := cmp.Or(cmp.Compare(v.weight(), best.weight()), cmp.Compare(best.remains, v.remains), cmp.Compare(v.reset, best.reset)); c > 0 {
			best = v
		}
	}
	return best
}

// weight returns how much an outcome matters for the descriptor.
func (v *visit) weight() int {
	switch v.outcome {
	case rejected:
		return 3
	case undecided:
		return 2
	case granted, returns, spared:
		return 1
	case free:
	}
	return 0
}

// overrideLimit sets a limit that comes with the request.
func (v *visit) overrideLimit(d *domain, descriptor *envoy.RateLimitDescriptor, l *allowance) {
	texts := make([]string, 0, 2*len(descriptor.GetEntries()))
	for _, e := range descriptor.GetEntries() {
		texts = append(texts, e.GetKey(), e.GetValue())
	}
	v.rule, v.config, v.limit = d.live[overrides], overrides, l
	v.key = keyOf(texts)
	v.key.override = l.units
}

// keyOf returns the key of some values. Each has its length before it, so that they cannot be mistaken for other values.
func keyOf(values []string) key {
	if len(values) == 1 {
		return key{values: cli.Short(values[0])}
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteString(strconv.Itoa(len(v)))
		b.WriteByte(':')
		b.WriteString(v)
	}
	return key{values: cli.Short(b.String())}
}

// nameFor returns the name of a rule with the values that its metrics want, or "".
func (rc *ruleConfig) nameFor(entries []*envoy.RateLimitDescriptor_Entry) string {
	if !rc.wantsDetails() {
		return ""
	}
	var b strings.Builder
	for i, e := range rc.path {
		if i > 0 {
			b.WriteByte('.')
		}
		own := e
		if !e.shared && (rc.detailed || e.inMetric) {
			own.value = cli.Short(entries[i].GetValue()) // a long one takes no more memory than that of a limiter
		}
		b.WriteString(own.name())
	}
	return b.String()
}

// asks reports whether a limiter decides about the descriptor.
func (v *visit) asks() bool { return v.rule != nil && !v.config.unlimited && !v.limit.bans() }

// enforced reports whether the descriptor can reject the request.
func (v *visit) enforced() bool { return !v.config.shadow && !v.config.quota && !v.givesHits }

// permits returns how many permits the limiter is asked for: none if hits are returned, which only looks.
func (v *visit) permits() int {
	if v.givesHits {
		return 0
	}
	return number(v.hits)
}

// decide takes the hits of all descriptors, or of none. It first calls the limiters that this process knows to be used up, so that
// a request over its limit takes nothing from the others. If ctx is done it takes none and returns ctx's error. With a store it
// returns within the service's timeout.
func (d *decision) decide(ctx context.Context) error {
	within := ctx
	if d.service.stored() {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, d.service.timeout(len(d.visits)))
		defer cancel()
	}
	for i := range d.visits {
		switch v := &d.visits[i]; {
		case v.asks():
			v.usedUp = v.permits() > number(uint64(v.limit.requests)) || v.rule.isUsedUp(v.key, v.permits())
		case v.rule != nil && v.limit.bans():
			v.reject()
		}
	}
	d.ask(within, func(v *visit) bool { return v.usedUp })
	if d.over = d.isOver(); d.over {
		d.spare()
	} else {
		d.ask(within, func(v *visit) bool { return !v.usedUp })
		d.over = d.isOver()
	}
	err := ctx.Err()
	d.finish(within, err)
	return err
}

// isOver reports whether a descriptor rejects the request.
func (d *decision) isOver() bool {
	for i := range d.visits {
		switch v := &d.visits[i]; v.outcome {
		case rejected:
			if v.enforced() {
				return true
			}
		case undecided:
			if v.enforced() && !d.domain.failOpen {
				return true
			}
		case free, granted, returns, spared:
		}
	}
	return false
}

// reject decides by a limit that bans.
func (v *visit) reject() {
	v.outcome = rejected
	if v.givesHits {
		v.outcome = returns
	}
}

var errLate = errors.New("no reply within the timeout")

// ask calls the limiters of some descriptors: in memory one after the other, and at a store several concurrently, so that
// a request takes one round trip.
func (d *decision) ask(ctx context.Context, which func(*visit) bool) {
	asking := 0
	var last *visit // visit that asks
	for i := range d.visits {
		v := &d.visits[i]
		switch {
		case !v.asks() || !which(v):
		case d.service.stored():
			v.verdict = verdict{outcome: undecided, err: errLate} // until there is a reply
			asking, last = asking+1, v
		case ctx.Err() != nil:
			return
		default:
			v.verdict = v.ask(ctx)
		}
	}
	switch {
	case asking == 0:
		return
	case asking == 1 && last.permits() > 0: // a call that ends with ctx needs no goroutine (bench/rls, with Redis)
		last.verdict = last.ask(ctx)
		return
	}
	verdicts := make([]atomic.Pointer[verdict], len(d.visits))
	together(ctx, len(verdicts), func(i int) {
		if v := &d.visits[i]; v.asks() && which(v) && ctx.Err() == nil {
			reply := v.ask(ctx)
			if !verdicts[i].CompareAndSwap(nil, &reply) { // it is late
				v.rule.refund(v.key, reply.lease)
			}
		}
	})
	for i := range verdicts {
		if reply := verdicts[i].Swap(new(verdict)); reply != nil {
			d.visits[i].verdict = *reply
		}
	}
}

// ask calls the limiter.
func (v *visit) ask(ctx context.Context) verdict {
	n := v.permits()
	l := v.rule.acquire(ctx, v.key, n)
	reply := verdict{outcome: granted, lease: l}
	switch err := l.Err(); {
	case err == nil:
	case errors.Is(err, redislimit.ErrStore):
		return verdict{outcome: undecided, err: err}
	case errors.Is(err, core.ErrClosed): // the rule has gone since
		return verdict{}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return verdict{outcome: undecided, err: errLate}
	default:
		reply.outcome = rejected
	}
	if v.givesHits {
		reply.outcome = returns
	}
	reply.remains, _ = core.Remaining.From(l)
	reply.reset, _ = core.ResetAfter.From(l)
	if n > 1 && reply.outcome == rejected {
		reply.lease, reply.remains = v.rule.drain(ctx, v.key, l), 0
		if reset, _ := core.ResetAfter.From(reply.lease); reset > 0 {
			reply.reset = reset
		}
	}
	return reply
}

// spare decides the descriptors that were not asked, in a request that is over its limit. In memory it looks what they have left.
// Of limits at a store it tells what this process knows.
func (d *decision) spare() {
	for i := range d.visits {
		v := &d.visits[i]
		if !v.asks() || v.usedUp {
			continue
		}
		v.outcome = spared
		if !d.service.stored() {
			l := v.rule.limiters.TryAcquire(v.key, 0)
			v.remains, _ = core.Remaining.From(l)
			v.reset, _ = core.ResetAfter.From(l)
			continue
		}
		v.remains, v.reset = v.rule.known(v.key, number(uint64(v.limit.requests)))
	}
}

func number(hits uint64) int { return int(min(hits, math.MaxInt)) }

// finish counts how the descriptors were decided, and returns the hits that are not to be kept. A descriptor that one of its limits
// rejects keeps none of the others, also if it passes in shadow mode. left is the error of a client that has disconnected.
func (d *decision) finish(ctx context.Context, left error) {
	var rest []func()
	var why error
	for visits := range d.descriptors() {
		by := decider(visits)
		over := d.over || by.outcome == rejected // in shadow mode, the request may still pass
		if by.rule != nil && left == nil {
			by.count(d)
		}
		for i := range visits {
			v := &visits[i]
			why = cmp.Or(why, v.err)
			switch {
			case v.rule == nil:
			case left != nil:
				rest = append(rest, v.giveUp)
			default:
				if do := v.finish(d, over); do != nil {
					rest = append(rest, do)
				}
			}
		}
	}
	slices.Reverse(rest)
	if why != nil && left == nil {
		d.service.StoreFailed(why)
	}
	if d.service.stored() {
		together(ctx, len(rest), func(i int) { rest[i]() })
		return
	}
	for _, do := range rest {
		do()
	}
}

// count counts how the descriptor was decided, by the limit of the visit.
func (v *visit) count(d *decision) {
	c := &v.rule.counts
	if v.name != "" {
		c = v.rule.countsOf(v.name)
	}
	switch v.outcome {
	case free:
		if v.config.unlimited {
			c.granted.Add(v.hits)
		}
	case undecided:
		c.undecided.Add(1)
	case returns:
		if !d.over {
			c.returned.Add(v.hits)
		}
	case granted:
		if !d.over {
			c.granted.Add(v.hits)
		}
	case rejected:
		if v.enforced() {
			c.rejected.Add(v.hits)
		} else {
			c.shadowed.Add(v.hits)
			d.service.logShadowed(v)
		}
	case spared:
	}
}

// finish sets what the response says of the limit, and returns what is left to do at its limiter, or nil. over says that a limit of
// the request, or of the descriptor, rejects it.
func (v *visit) finish(d *decision, over bool) (rest func()) {
	most := number(uint64(v.limit.requests))
	switch v.outcome {
	case free:
		return nil
	case undecided:
		if !v.enforced() || d.domain.failOpen {
			v.remains = most
		}
	case spared:
	case returns:
		if !d.over {
			v.remains += min(number(v.hits), most-min(v.remains, most))
			rest = v.giveBack
		}
	case granted:
		if over {
			v.remains += number(v.hits) // the number before the request
			rest = v.giveUp
		}
	case rejected:
		if !v.enforced() && d.over { // another descriptor rejects the request
			v.remains = v.lease.Permits()
			rest = v.giveUp
		}
	}
	if v.reset <= 0 {
		v.reset = v.limit.untilEnd()
	}
	return rest
}

// giveUp returns what the request has taken.
func (v *visit) giveUp() { v.rule.refund(v.key, v.lease) }

// giveBack returns the hits to the limiter, which has been asked. So it exists, also in a process that has taken nothing.
func (v *visit) giveBack() {
	if l := v.rule.limiterOf(v.key); l != nil {
		l.GiveBack(number(v.hits))
		v.rule.returned(v.key, 0) // it is not known whether there was room for all
	}
}

// maxTogether is how many calls of the store one request has in flight. A Redis client shares connections and pipelines among
// them.
const maxTogether = 512

// together calls do(0), …, do(n-1), several of them concurrently. It returns when all calls have returned, or ctx is done.
func together(ctx context.Context, n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, maxTogether) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
