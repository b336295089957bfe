package core_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// config is the first bytes of a fuzz input, cut to what makes a story dense.
type config struct {
	limit, queueLimit int
	order             core.QueueOrder
	manual, even      bool
	tokens            int
	length, segments  int64
	anchor            int64
	unit              int64
	grain             int
}

const configBytes = 8

func configOf(b []byte) config {
	c := config{
		limit: int(b[0])%12 + 1, queueLimit: int(b[1]) % 13, order: core.QueueOrder(b[2] & 1),
		manual: b[2]&6 == 2, even: b[2]&8 != 0, tokens: int(b[3])%7 + 1, length: int64(b[4]) + 1,
		anchor: int64(int8(b[6])) * int64(b[7]%4),
	}
	if b[2]&16 != 0 {
		c.length = c.length%7 + 1
	}
	if c.even {
		c.length *= 2
	}
	c.segments = int64(b[5])%c.length + 1
	if b[2]&32 != 0 {
		c.segments = min(c.segments%5+1, c.length)
	}
	if b[1]&96 == 32 {
		c.order = core.FairShare
	}
	// Large numbers and long times do not fit where small ones do.
	c.unit, c.grain = 1, 1
	if b[2]&64 != 0 {
		c.unit = 1 << 43
	}
	if b[2]&128 != 0 {
		c.grain = 1 << (24 + b[7]%14)
		if strconv.IntSize == 32 {
			c.grain = 1 << (22 + b[7]%4)
		}
		if b[7] > 200 {
			c.grain = math.MaxInt>>6 + 1
		}
	}
	c.limit, c.queueLimit, c.tokens = c.limit*c.grain, c.queueLimit*c.grain, c.tokens*c.grain
	if b[1]&16 != 0 {
		c.tokens += int(b[3] / 7)
	}
	c.length, c.anchor = c.length*c.unit, c.anchor*c.unit
	return c
}

func (c config) model(timed bool, a naiveAccount) *naive {
	return &naive{
		acct: a, limit: c.limit, queueLimit: c.queueLimit, order: c.order, manual: timed && c.manual, timed: timed,
	}
}

// seed adds stories that a person thought of to the corpus.
func seed(f *testing.F) {
	f.Helper()
	f.Add([]byte("7020000002+0\xff10")) // more is set aside than the new limit has room for
	for order := range byte(2) {
		for _, style := range []byte{0, 2, 8, 8 | 16 | 32, 16, 64 | 8, 128, 128 | 64 | 2} {
			head := []byte{4, 5, order | style, 1, 10, 2, 3, 1}
			for _, story := range [][]byte{
				{0, 5, 0, 3, 3, 2, 3, 4, 11, 9, 14, 0, 8, 0, 11, 200},
				{0, 6, 3, 2, 3, 3, 7, 0, 7, 200, 6, 40, 8, 0, 11, 50, 14, 0, 14, 2},
				{3, 2, 3, 2, 3, 3, 3, 3, 9, 0, 9, 0, 10, 1, 10, 1, 15, 40, 11, 30, 15, 23, 15, 255, 3, 2},
				{0, 4, 11, 3, 0, 4, 11, 5, 0, 4, 14, 3, 11, 5, 10, 0, 10, 1, 11, 100, 10, 2, 14, 2},
				{0, 6, 3, 3, 6, 90, 7, 0, 0, 3, 2, 0, 11, 7, 11, 7, 11, 7, 11, 7, 14, 0, 14, 1, 14, 2, 14, 3},
			} {
				f.Add(append(append([]byte(nil), head...), story...))
			}
		}
	}
}

// build makes a limiter of the config and its model.
type build func(t *testing.T, c config) *rig

// play tells the story to a limiter and its model.
func play(t *testing.T, b build, input []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := configOf(input)
		r := b(t, c)
		r.t, r.even, r.grain = t, c.even, c.grain
		if r.unit == 0 {
			r.unit = c.unit
		}
		r.operations(input[configBytes:])
	})
}

func fuzz(f *testing.F, b build) {
	f.Helper()
	seed(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) < configBytes || len(input) > configBytes+2*120 {
			return
		}
		play(t, b, input)
	})
}

func FuzzConcurrencyLimiter(f *testing.F) { fuzz(f, concurrencyRig) }
func FuzzTokenBucket(f *testing.F)        { fuzz(f, bucketRig) }
func FuzzFixedWindow(f *testing.F)        { fuzz(f, fixedRig) }
func FuzzSlidingWindow(f *testing.F)      { fuzz(f, slidingRig) }
func FuzzCalendar(f *testing.F)           { fuzz(f, calendarRig) }

// TestRandomStories is a short walk of the fuzz targets, the same each time.
func TestRandomStories(t *testing.T) {
	for name, b := range map[string]build{
		"concurrency": concurrencyRig, "bucket": bucketRig, "fixed": fixedRig, "sliding": slidingRig,
		"calendar": calendarRig,
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			for range testkit.Rounds(250) {
				input := make([]byte, configBytes+2*random.IntN(120))
				for i := range input {
					input[i] = byte(random.Uint32())
				}
				play(t, b, input)
			}
		})
	}
}

func concurrencyRig(t *testing.T, c config) *rig {
	t.Helper()
	o := core.ConcurrencyLimiterOptions{Name: "c", PermitLimit: c.limit, QueueLimit: c.queueLimit, QueueOrder: c.order}
	l, err := core.NewConcurrencyLimiter(o)
	require.NoError(t, err)
	r := &rig{real: l, name: "c", model: c.model(false, naiveHeld{})}
	r.update = func(limit, queueLimit int, order core.QueueOrder, _ byte) {
		o.PermitLimit, o.QueueLimit, o.QueueOrder = limit, queueLimit, order
		require.NoError(t, l.Update(o))
		r.model.update(limit, queueLimit, order, false)
	}
	return r
}

func bucketRig(t *testing.T, c config) *rig {
	t.Helper()
	o := core.TokenBucketOptions{
		Name: "b", TokenLimit: c.limit, TokensPerPeriod: min(c.tokens, c.limit), ReplenishmentPeriod: time.Duration(c.length),
		QueueLimit: c.queueLimit, QueueOrder: c.order, ManualReplenishment: c.manual,
	}
	l, err := core.NewTokenBucket(o)
	require.NoError(t, err)
	account := &naiveBucket{limit: c.limit, tokens: min(c.tokens, c.limit), period: c.length}
	r := &rig{real: l, name: "b", model: c.model(true, account)}
	r.update = func(limit, queueLimit int, order core.QueueOrder, step byte) {
		before := o
		o.TokenLimit, o.QueueLimit, o.QueueOrder = limit, queueLimit, order
		o.TokensPerPeriod = min((int(step/2)%5+1)*r.grain, limit)
		o.ManualReplenishment = step%7 == 0
		if step%3 == 0 {
			o.ReplenishmentPeriod = time.Duration(2*int64(step/3)+2) * time.Duration(r.unit)
		}
		require.NoError(t, l.Update(o))
		if o == before {
			return // an equal update changes nothing
		}
		r.model.change(func() {
			account.update(r.model.now, limit, o.TokensPerPeriod, int64(o.ReplenishmentPeriod), o.ManualReplenishment)
		})
		r.model.update(limit, queueLimit, order, o.ManualReplenishment)
	}
	return r
}

func fixedRig(t *testing.T, c config) *rig {
	t.Helper()
	o := core.FixedWindowOptions{
		Name: "f", PermitLimit: c.limit, Window: time.Duration(c.length), Anchor: time.Now().Add(time.Duration(c.anchor)),
		QueueLimit: c.queueLimit, QueueOrder: c.order, ManualReplenishment: c.manual,
	}
	l, err := core.NewFixedWindow(o)
	require.NoError(t, err)
	r := &rig{real: l, name: "f", model: c.model(true, &naiveWindow{length: c.length, segments: 1, anchor: c.anchor})}
	r.update = func(limit, queueLimit int, order core.QueueOrder, step byte) {
		o.PermitLimit, o.QueueLimit, o.QueueOrder, o.ManualReplenishment = limit, queueLimit, order, step%7 == 0
		grid := r.grid(step, 1)
		o.Window, o.Anchor = grid.window(), grid.anchorTime(o.Anchor)
		require.NoError(t, l.Update(o))
		r.moveTo(grid, o.ManualReplenishment)
		r.model.update(limit, queueLimit, order, o.ManualReplenishment)
	}
	return r
}

// calendarRig has days in UTC, which are windows of 24 hours from midnight, the start of a bubble.
func calendarRig(t *testing.T, c config) *rig {
	t.Helper()
	const unit = 1 << 43 // two and a half hours
	past := time.Duration(c.tokens/c.grain) * unit / 2
	time.Sleep(past)
	o := core.FixedWindowOptions{
		Name: "d", PermitLimit: c.limit, Calendar: core.Daily(nil), QueueLimit: c.queueLimit, QueueOrder: c.order,
	}
	l, err := core.NewFixedWindow(o)
	require.NoError(t, err)
	c.manual = false
	day := 24 * time.Hour
	r := &rig{real: l, name: "d", calendar: true, unit: unit, model: c.model(true, &naiveWindow{length: int64(day), segments: 1, anchor: -int64(past)})}
	r.update = func(limit, queueLimit int, order core.QueueOrder, _ byte) {
		o.PermitLimit, o.QueueLimit, o.QueueOrder = limit, queueLimit, order
		require.NoError(t, l.Update(o))
		r.model.update(limit, queueLimit, order, false)
	}
	return r
}

func slidingRig(t *testing.T, c config) *rig {
	t.Helper()
	o := core.SlidingWindowOptions{
		Name: "s", PermitLimit: c.limit, Window: time.Duration(c.length), SegmentsPerWindow: int(c.segments),
		Anchor: time.Now().Add(time.Duration(c.anchor)), QueueLimit: c.queueLimit, QueueOrder: c.order,
		ManualReplenishment: c.manual,
	}
	l, err := core.NewSlidingWindow(o)
	require.NoError(t, err)
	r := &rig{real: l, name: "s", model: c.model(true, &naiveWindow{length: c.length, segments: c.segments, anchor: c.anchor})}
	r.update = func(limit, queueLimit int, order core.QueueOrder, step byte) {
		o.PermitLimit, o.QueueLimit, o.QueueOrder, o.ManualReplenishment = limit, queueLimit, order, step%7 == 0
		grid := r.grid(step, int64(step/2)%5+1)
		o.Window, o.Anchor, o.SegmentsPerWindow = grid.window(), grid.anchorTime(o.Anchor), int(grid.segments)
		require.NoError(t, l.Update(o))
		r.moveTo(grid, o.ManualReplenishment)
		r.model.update(limit, queueLimit, order, o.ManualReplenishment)
	}
	return r
}

// grid is where an update moves a window to, or where it is.
type grid struct {
	start                    time.Time
	length, segments, anchor int64
	moved, zero              bool
}

// grid returns another grid of so many segments for one update in three. Its boundaries are even
// where they have to be.
func (r *rig) grid(step byte, segments int64) grid {
	w, _ := r.model.acct.(*naiveWindow)
	if step%3 > 0 {
		return grid{start: r.start, length: w.length, segments: w.segments, anchor: w.anchor}
	}
	g := grid{start: r.start, length: 2 * segments * (int64(step)%7 + 1) * r.unit, segments: segments, moved: true, zero: step%4 == 0}
	if !r.even {
		g.length += int64(step) % 5
	}
	if !g.zero {
		g.anchor = 2 * int64(int8(step*5)) * r.unit
	}
	return g
}

func (g grid) window() time.Duration { return time.Duration(g.length) }

func (g grid) anchorTime(old time.Time) time.Time {
	switch {
	case !g.moved:
		return old
	case g.zero:
		return time.Time{}
	}
	return g.start.Add(time.Duration(g.anchor))
}

// moveTo moves the model to a grid. Permits that are due come back first, unless the limiter stays manual.
func (r *rig) moveTo(g grid, manual bool) {
	if r.model.manual && !manual {
		r.model.change(func() { r.model.acct.pass(r.model.now) })
	}
	w, _ := r.model.acct.(*naiveWindow)
	w.move(r.model.now, g.length, g.segments, g.anchor)
}
