package core_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// quota is a limiter of days in UTC as one plays it who has only a list, by a clock on the wall that may be set.
type quota struct {
	ahead             time.Duration // of the wall's clock
	limit, taken      int
	start, end        time.Time // of the current window
	window            int       // how many there were
	waits             []int
	granted, rejected uint64
}

func (q *quota) now() time.Time { return time.Now().Add(q.ahead) }

func (q *quota) enter(now time.Time) {
	q.start = now.Truncate(day)
	q.end = q.start.Add(day)
	q.taken = 0
	q.window++
}

func (q *quota) serve() {
	for len(q.waits) > 0 && q.waits[0] <= q.limit-q.taken {
		q.taken += q.waits[0]
		q.granted++
		q.waits = q.waits[1:]
	}
}

// look finds the window of now, if the current one is over: the windows that were skipped grant nothing.
func (q *quota) look() {
	if now := q.now(); !now.Before(q.end) {
		q.enter(now)
		q.serve()
	}
}

// pass plays d of time, in which the clock is not set.
func (q *quota) pass(d time.Duration) {
	for until := time.Now().Add(d); ; {
		q.look()
		left := time.Until(until)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, q.end.Sub(q.now())))
	}
}

func (q *quota) queued() (n int) {
	for _, w := range q.waits {
		n += w
	}
	return n
}

// after returns how long a request of n permits waits behind those that wait.
func (q *quota) after(n int) time.Duration {
	c := *q
	c.waits = append(append([]int(nil), q.waits...), n)
	for c.serve(); len(c.waits) > 0; c.serve() {
		c.enter(c.end)
	}
	return c.start.Sub(q.now())
}

// However the clock is set, a limiter with a calendar is as in the naive list.
func TestSetClocksFollowTheNaiveList(t *testing.T) {
	for seed := range uint64(testkit.Rounds(1000)) {
		wallBubble(t, func(t *testing.T) {
			t.Log("seed", seed)
			random := rand.New(rand.NewPCG(seed, 7))
			const queueLimit = 10
			q := &quota{limit: 2 + random.IntN(5)}
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			options := core.FixedWindowOptions{PermitLimit: q.limit, Calendar: core.Daily(nil), QueueLimit: queueLimit}
			l, err := core.NewFixedWindow(options)
			require.NoError(t, err)
			q.enter(q.now())
			type grant struct {
				core.Lease
				window int
			}
			var grants []grant
			for range 50 {
				n := 1 + random.IntN(2)
				switch random.IntN(9) {
				case 0, 1:
					k := l.TryAcquire(n)
					if len(q.waits) == 0 && n <= q.limit-q.taken {
						require.True(t, k.Acquired())
						q.taken += n
						q.granted++
						grants = append(grants, grant{k, q.window})
						break
					}
					require.False(t, k.Acquired())
					q.rejected++
					retry, _ := core.RetryAfter.From(k)
					require.Equal(t, q.after(n), retry)
				case 2, 3:
					go func() { _, _ = l.Acquire(t.Context(), n) }()
					synctest.Wait()
					if q.queued()+n > queueLimit && (len(q.waits) > 0 || n > q.limit-q.taken) {
						q.rejected++
						break
					}
					q.waits = append(q.waits, n)
					q.serve()
				case 4:
					q.pass(time.Duration(1+random.IntN(1<<random.IntN(12))) * time.Minute)
				case 5: // the clock is set, and a call looks at it
					q.ahead = time.Duration(random.IntN(1<<random.IntN(15))-random.IntN(1<<random.IntN(15))) * time.Minute
					setWall(q.ahead)
					l.Available()
					q.look()
				case 6:
					if len(grants) > 0 {
						i := random.IntN(len(grants))
						g := grants[i]
						grants = append(grants[:i:i], grants[i+1:]...)
						g.Lease.Refund()
						if g.window == q.window {
							q.taken -= min(g.Permits(), q.taken)
							q.serve()
						}
					}
				case 7:
					l.GiveBack(n)
					q.taken -= min(n, q.taken)
					q.serve()
				case 8:
					if random.IntN(3) == 0 {
						l.Reset()
						q.enter(q.now())
						q.serve()
						break
					}
					q.limit = 2 + random.IntN(5)
					options.PermitLimit = q.limit
					require.NoError(t, l.Update(options))
					q.serve()
				}
				synctest.Wait()
				require.Equal(t, core.Statistics{
					Limit: q.limit, Available: max(q.limit-q.taken, 0), Queued: q.queued(), Granted: q.granted, Rejected: q.rejected,
				}, l.Statistics())
			}
			require.NoError(t, l.Close())
			wallAhead.Store(int64(0))
			synctest.Wait()
		})
	}
}
