package httplimit_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// stream is a request that was let through.
type stream struct {
	at, end        time.Duration // since the beginning
	estimate, cost int
}

// first is what counts from the stream's admission on, and excess what is taken at its end.
func (s stream) first() int  { return min(s.estimate, s.cost) }
func (s stream) excess() int { return max(s.cost-s.estimate, 0) }

// streams is a load of streams of random cost, through a policy that settles.
type streams struct {
	t       *testing.T
	most    int // permits in a minute
	begun   time.Time
	keyed   *partition.Keyed[*http.Request, string]
	handler http.Handler

	mu        sync.Mutex
	keys      map[string][]stream
	now, peak int // under way
	hungUp    int
}

const (
	streamKeys    = 20
	streamClients = 2000
	streamLimit   = 20_000 // permits of a key
	streamRate    = 15_000 // of a bucket, a minute
	streamSegment = time.Second
	streamWindow  = time.Minute + streamSegment // any minute lies within it
)

// newWindow returns a limiter of streamLimit permits in any minute.
func newWindow(begun time.Time) (core.Limiter, error) {
	return core.NewSlidingWindow(core.SlidingWindowOptions{
		PermitLimit: streamLimit, Window: streamWindow, SegmentsPerWindow: int(streamWindow / streamSegment),
		Anchor: begun, QueueLimit: 1000,
	})
}

// newBucket returns a limiter of streamLimit permits, and streamRate more each minute.
func newBucket(time.Time) (core.Limiter, error) {
	return core.NewTokenBucket(core.PerSecond(streamRate/60, streamLimit))
}

func newStreams(t *testing.T, most int, limiter func(begun time.Time) (core.Limiter, error)) *streams {
	t.Helper()
	s := &streams{t: t, most: most, begun: time.Now(), keys: make(map[string][]stream)}
	var err error
	s.keyed, err = partition.New(partition.Options[*http.Request, string]{
		Key:         httplimit.ByHeader("X-Api-Key"),
		New:         func(string) (core.Limiter, error) { return limiter(s.begun) },
		IdleTimeout: time.Minute, // the longest stream
	})
	require.NoError(t, err)
	number := func(h http.Header, name string) int {
		n, err := strconv.Atoi(h.Get(name))
		if err != nil {
			return -1
		}
		return n
	}
	l := limits(t, httplimit.Options{Policies: []httplimit.Policy{{
		Name: "tokens", Limiter: s.keyed, MaxWait: 20 * time.Second,
		Permits: func(r *http.Request) int { return number(r.Header, "Estimate") },
		Settle:  func(_ *http.Request, _ int, h http.Header) int { return number(h, "Cost") },
	}}})
	s.handler = l.Policy("tokens")(http.HandlerFunc(s.serve))
	return s
}

// serve streams until the answer has ended or the client hangs up. Both have used something.
func (s *streams) serve(w http.ResponseWriter, r *http.Request) {
	at := time.Since(s.begun)
	s.mu.Lock()
	s.now++
	s.peak = max(s.peak, s.now)
	s.mu.Unlock()
	full, err := strconv.Atoi(r.Header.Get("Full"))
	assert.NoError(s.t, err)
	lasts, err := time.ParseDuration(r.Header.Get("Lasts"))
	assert.NoError(s.t, err)
	estimate, err := strconv.Atoi(r.Header.Get("Estimate"))
	assert.NoError(s.t, err)
	timer := time.NewTimer(lasts)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
	end := time.Since(s.begun)
	cost := int(int64(full) * int64(end-at) / int64(lasts))
	w.Header().Set("Cost", strconv.Itoa(cost))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if r.Context().Err() != nil {
		s.hungUp++
	}
	key := r.Header.Get("X-Api-Key")
	s.keys[key] = append(s.keys[key], stream{at, end, estimate, cost})
	if cost%7 == 0 {
		panic(http.ErrAbortHandler) // a stream that ends so has its cost too
	}
}

// client makes requests until the time is over. What it draws is an even number of nanoseconds.
func (s *streams) client(n int, until time.Duration) {
	random := rand.New(rand.NewPCG(3, uint64(n)))
	draw := func(most time.Duration) time.Duration { return 2 * (1 + time.Duration(random.Int64N(int64(most/2)))) }
	time.Sleep(draw(100 * time.Millisecond))
	for time.Since(s.begun) < until && s.t.Context().Err() == nil {
		ctx, hangUp := context.WithCancel(s.t.Context())
		if random.IntN(3) == 0 {
			time.AfterFunc(draw(time.Minute), hangUp)
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.Header.Set("X-Api-Key", strconv.Itoa(n%streamKeys))
		r.Header.Set("Estimate", strconv.Itoa(1+random.IntN(199)))
		r.Header.Set("Full", strconv.Itoa(random.IntN(400)))
		r.Header.Set("Lasts", draw(time.Minute).String())
		w := httptest.NewRecorder()
		func() {
			defer func() { _ = recover() }()
			s.handler.ServeHTTP(w, r)
		}()
		hangUp()
		if w.Code == http.StatusTooManyRequests {
			time.Sleep(draw(20 * time.Second))
		}
	}
}

// holds checks that in no minute between two instants a key has used more than its limit, but
// for what the streams under way at its last admission have cost beyond their estimates.
func (s *streams) holds(all []stream, from, to time.Duration) {
	var instants []time.Duration // when something was taken
	for _, x := range all {
		instants = append(instants, x.at, x.end)
	}
	within := func(t, after, until time.Duration) bool {
		return t > after && t <= until && t >= from && t <= to
	}
	for _, now := range instants {
		if now < from || now > to {
			continue
		}
		used, last, owed := 0, time.Duration(0), 0
		for _, x := range all {
			if x.at <= now {
				last = max(last, x.at)
			}
			if within(x.at, now-time.Minute, now) {
				used += x.first()
			}
			if within(x.end, now-time.Minute, now) {
				used += x.excess()
			}
		}
		for _, x := range all {
			if x.at <= last && x.end >= last && x.end <= now {
				owed += x.excess()
			}
		}
		require.LessOrEqual(s.t, used, s.most+owed, "in the minute up to %v, after the admission at %v", now, last)
	}
}

// counted returns what of a key's streams counts in its window at an instant, after a Reset.
func counted(all []stream, reset, now time.Duration) int {
	sum := 0
	counts := func(t time.Duration) bool {
		return t >= reset && now/streamSegment-t/streamSegment < streamWindow/streamSegment
	}
	for _, x := range all {
		if counts(x.at) {
			sum += x.first()
		}
		if counts(x.end) {
			sum += x.excess()
		}
	}
	return sum
}

// letIn resets the limiter of a request whose key is locked out.
func (s *streams) letIn(r *http.Request) {
	limiter, ok := s.keyed.Get(r.Header.Get("X-Api-Key"))
	require.True(s.t, ok)
	l := limiter.(interface {
		core.Limiter
		core.Refunder
		core.Resetter
	})
	require.False(s.t, l.TryAcquire(1).Acquired())
	waits := make(chan core.Lease, 1)
	go func() {
		lease, err := l.Acquire(s.t.Context(), 1)
		assert.NoError(s.t, err)
		waits <- lease
	}()
	synctest.Wait()
	l.Reset()
	l.Refund(<-waits)
	lease := l.TryAcquire(200)
	require.True(s.t, lease.Acquired())
	l.Refund(lease)
}

// 2,000 streams at once, of random cost, whose clients hang up at random, while they wait or
// later: in no minute does a key use more than the limit and what was under way when its last
// stream was admitted; what was settled is counted to the permit; a Reset lets the locked-out
// in at once; and nothing is left of all that in the end.
func TestStressSettledStreams(t *testing.T) {
	t.Run("window", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStreams(t, streamLimit, newWindow)
			s.load()
			now := time.Since(s.begun)
			for key, l := range s.keyed.All() {
				require.Equal(t, max(streamLimit-counted(s.keys[key], s.reset(key), now), 0), l.Available(), key)
			}
			s.rest()
		})
	})
	t.Run("bucket", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStreams(t, streamLimit+streamRate, newBucket)
			s.load()
			s.rest()
		})
	})
}

// streamReset is when the limiter of key 0 is reset: an instant at which nothing else happens.
const streamReset = 2*time.Minute + 1

// reset returns when the limiter of a key was reset; below 0: never.
func (s *streams) reset(key string) time.Duration {
	if key == "0" {
		return streamReset
	}
	return -1
}

// load has all clients make requests for four minutes, and checks what they have used.
func (s *streams) load() {
	mistake := httptest.NewRequest(http.MethodGet, "/", nil)
	mistake.Header.Set("X-Api-Key", "0")
	lease := s.keyed.TryAcquire(mistake, 1)
	var clients sync.WaitGroup
	for n := range streamClients {
		clients.Go(func() { s.client(n, 4*time.Minute) })
	}
	time.Sleep(streamReset)
	s.keyed.Settle(mistake, lease, 2*streamLimit)
	s.letIn(mistake)
	clients.Wait()
	admitted := 0
	for key, all := range s.keys {
		admitted += len(all)
		s.holds(all, 0, s.reset(key)-1)
		s.holds(all, s.reset(key), time.Since(s.begun))
	}
	s.t.Logf("%d streams, at most %d at once, %d hung up", admitted, s.peak, s.hungUp)
	require.Equal(s.t, streamClients, s.peak)
}

// rest lets everything come back, and finds that nothing is held.
func (s *streams) rest() {
	require.Zero(s.t, s.now)
	time.Sleep(10 * time.Minute)
	for key, l := range s.keyed.All() {
		require.Equal(s.t, streamLimit, l.Available(), key)
	}
	s.keyed.Sweep()
	require.Zero(s.t, s.keyed.Len())
}
