package docs_test

import (
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pageFile = "../../docs/choose.md"

// Each limiter of the page gets the same requests, made from its text and by its constructor, and
// both decide the same.
func TestChoose(t *testing.T) {
	page, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	for _, l := range leaves {
		t.Run(l.name, func(t *testing.T) {
			limit, err := spec.Parse(l.spec)
			require.NoError(t, err)
			played := play(t, func() (core.Limiter, error) { return limit.New("") }, l.waits)
			require.Equal(t, played, play(t, l.build, l.waits), "the text and the constructor are different limits")

			require.Contains(t, string(page), "```spec\n"+l.spec+"\n```\n")
		})
	}
}

// end is when the requests end.
const end = 5 * time.Second

// work is how long a granted request takes.
const work = 450 * time.Millisecond

// arrivals returns the instants of the requests: nearly 4 a second, and 30 more in three tenths of a
// second, about the end of the first second. No two come at once.
func arrivals() []time.Duration {
	var at []time.Duration
	for i := 3 * time.Millisecond; i < end; i += 263 * time.Millisecond {
		at = append(at, i)
	}
	for i := range 30 {
		at = append(at, 851*time.Millisecond+time.Duration(i)*10*time.Millisecond)
	}
	slices.Sort(at)
	return at
}

// A request came at an instant, and was granted or rejected at another.
type request struct {
	came, decided time.Duration
	granted       bool
}

// play gives the requests to a limiter in virtual time.
func play(t *testing.T, build func() (core.Limiter, error), waits bool) []request {
	t.Helper()
	var requests []request
	synctest.Test(t, func(t *testing.T) {
		limiter, err := build()
		require.NoError(t, err)
		start := time.Now()
		for _, at := range arrivals() {
			requests = append(requests, request{came: at})
		}
		var all sync.WaitGroup
		for i := range requests {
			r := &requests[i]
			all.Go(func() {
				time.Sleep(r.came)
				lease := ask(t, limiter, waits)
				r.decided, r.granted = time.Since(start), lease.Acquired()
				time.Sleep(work)
				lease.Release()
			})
		}
		all.Wait()
	})
	return requests
}

func ask(t *testing.T, limiter core.Limiter, waits bool) core.Lease {
	t.Helper()
	if !waits {
		return limiter.TryAcquire(1)
	}
	lease, _ := limiter.Acquire(t.Context(), 1) // of a rejection the lease says enough
	return lease
}
