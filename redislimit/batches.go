package redislimit

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/sluice-go/sluice/redislimit/internal/batch"
)

// Batches has takes of many token buckets of one store, made at the same time, travel in one
// script call, which costs the server less than half of what it costs alone. Each is decided, and fails,
// by itself. A store that has one returns it, always the same, from a method
// Batches() *Batches; its Run must be able to run a script over keys of several slots. The zero
// value is ready for use.
type Batches struct {
	queue batch.Queue[*take]
	off   atomic.Bool // the server does not take such keys together
}

// take is one take of a bucket, to which nothing else is joined.
type take struct {
	by    *Batches
	store Store
	keys  []string
	args  [4]int64 // limit, tokens, period, n
	reply [2 + answerLen]int64
	seat  batch.Seat[*take]
	got   []int64 // the script's answer, as to a take alone; nil: it was not decided
	err   error
}

// Size returns about how many bytes the take is of a batch.
func (t *take) Size() int {
	const frame, number = 7, 10
	return frame + len(t.keys[0]) + len(t.args)*(frame+number)
}

// failed is what the script says of a key for which the server failed.
const failed = -1

// runScript has the store run the script for the call.
func (r *runner) runScript(c *call, args []int64) ([]int64, error) {
	e := r.e
	store := e.shared.Store
	b := e.batches
	if b == nil || len(c.ops) > 1 || !c.plain() || b.off.Load() {
		return store.Run(c, c.t.script(), e.keys, args...)
	}
	if b.queue.Enter() {
		defer b.queue.Leave()
		return store.Run(c, bucketScript, e.keys, args...)
	}
	t := r.take
	if t == nil {
		t = &take{by: b, store: store, keys: e.keys}
		r.take = t
	}
	t.args, t.got, t.err = [4]int64(args), nil, nil
	switch made, err := b.queue.Join(c.deadline, nil, t, &t.seat); {
	case err != nil:
		r.take = nil // its batch may be under way
		return nil, err
	case made && (t.got != nil || t.err != nil):
		return t.got, t.err
	}
	return store.Run(c, bucketScript, e.keys, args...)
}

// plain reports whether the call is takes of a bucket that are alike and did not wait, and nothing else: the
// script has few steps for them.
func (c *call) plain() bool {
	o := c.ops[0]
	return c.t.kind == kindBucket && o.kind == opTake && o.n > 0 && o.x&flagWaited == 0 && c.t.run(c.ops) == len(c.ops)
}

// Together runs the script for all takes, but for those that have to be made alone: of a key that
// another is of, or with another store, which was made of this one.
func (t *take) Together(ctx context.Context, all []*take) {
	keys, args, sent := make([]string, 0, len(all)), make([]int64, 0, len(t.args)*len(all)), all[:0]
	known := make(map[string]struct{}, len(all))
	for _, other := range all {
		key := other.keys[0]
		if _, twice := known[key]; twice || !sameValue(t.store, other.store) {
			continue
		}
		known[key] = struct{}{}
		keys, args, sent = append(keys, key), append(args, other.args[:]...), append(sent, other)
	}
	if len(sent) == 1 {
		t.got, t.err = t.store.Run(ctx, bucketScript, t.keys, t.args[:]...)
		return
	}
	got, err := t.store.Run(ctx, bucketScript, keys, args...)
	switch {
	case err != nil && unfit(err):
		t.by.off.Store(true) // nothing was done, and nothing will be
		return
	case err == nil && (len(got) != 2+answerLen*len(sent) || got[0] != 0):
		err = fmt.Errorf("%w: %d numbers", errReply, len(got))
	}
	for i, other := range sent {
		if other.err = err; err == nil {
			other.answer(got[1], got[2+answerLen*i:][:answerLen])
		}
	}
}

// unfit reports whether the server refuses a script because of its keys, before it runs it.
func unfit(err error) bool {
	text := err.Error()
	return strings.Contains(text, "CROSSSLOT") || strings.Contains(text, "NOPERM")
}

// answer has t answered by what the script said of its key.
func (t *take) answer(now int64, a []int64) {
	switch {
	case a[0] == failed: // alone, it gets the server's error
	case a[0] < 0:
		t.got = append(t.reply[:0], -a[0]) // another kind of limit
	default:
		t.got = append(append(t.reply[:0], 0, now), a...)
	}
}
