package ioreader_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// tap is a source that gets some bytes each second, until it has none.
type tap struct {
	bytes.Buffer

	rest [][]byte
	err  error // of Pending, instead of the end
}

func (p *tap) Pending() (int64, error) {
	if p.Len() == 0 && len(p.rest) > 0 {
		time.Sleep(time.Second)
		p.Write(p.rest[0])
		p.rest = p.rest[1:]
	}
	if p.Len() == 0 {
		return 0, p.err
	}
	return int64(p.Len()), nil
}

// splicing is a sink that takes the bytes of a tap from inside it, as splice(2) would.
type splicing struct {
	bytes.Buffer

	slices []int64
	reads  int
	during func() // called in ReadFrom; may be nil
}

func (s *splicing) ReadFrom(r io.Reader) (int64, error) {
	if s.during != nil {
		s.during()
	}
	limited := r.(*io.LimitedReader)
	from := limited.R.(*tap)
	n, err := s.Buffer.Write(from.Next(int(limited.N)))
	limited.N -= int64(n)
	s.slices = append(s.slices, int64(n))
	return int64(n), err
}

func (s *splicing) Write(p []byte) (int, error) {
	s.reads++
	return s.Buffer.Write(p)
}

// TestSplicer has a source that is no file, whose bytes pass by ReadFrom, slice by slice.
func TestSplicer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := pattern(30_000)
		for name, copyAll := range map[string]func(*splicing, *tap) (int64, error){
			"Copy": func(to *splicing, from *tap) (int64, error) {
				return ioreader.Copy(t.Context(), to, from, ioreader.CopyOptions{Limiter: perSecond(t, 10_000)})
			},
			"ReadFrom": func(to *splicing, from *tap) (int64, error) {
				return ioreader.NewWriter(t.Context(), to, perSecond(t, 10_000)).ReadFrom(from)
			},
			"WriteTo": func(to *splicing, from *tap) (int64, error) {
				return ioreader.NewReader(t.Context(), from, perSecond(t, 10_000)).WriteTo(to)
			},
		} {
			from, to, start := &tap{rest: [][]byte{want[:10_000], want[10_000:10_001], want[10_001:]}}, new(splicing), time.Now()
			n, err := copyAll(to, from)
			require.NoError(t, err, name)
			require.EqualValues(t, len(want), n)
			require.Equal(t, want, to.Bytes())
			require.Zero(t, to.reads, "all pass by ReadFrom")
			for _, n := range to.slices {
				require.LessOrEqual(t, n, int64(1460))
			}
			// The source is asked three times, and each time has bytes a second later, when the bucket is full again.
			require.InDelta(t, 3+2*0.854+1, time.Since(start).Seconds(), 0.01)
		}
	})
}

// While a source has nothing, its copy holds no permits. The error of Pending is that of the copy.
func TestASplicerThatWaitsHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("cause")
		bound := semaphore(t, 1000)
		from, to := &tap{rest: [][]byte{pattern(100), pattern(100)}, err: cause}, new(splicing)
		ended := make(chan error)
		go func() {
			_, err := ioreader.Copy(t.Context(), to, from, ioreader.CopyOptions{Limiter: bound})
			ended <- err
		}()
		for range 3 {
			synctest.Wait()
			require.Equal(t, 1000, bound.Available())
			time.Sleep(500 * time.Millisecond)
		}
		require.Equal(t, cause, <-ended)
		require.Equal(t, 200, to.Len())
	})
}

// A Reader's bytes hold no permits while they are written elsewhere.
func TestAWriteToHoldsNothingWhileItWrites(t *testing.T) {
	bound, writes := semaphore(t, 1000), 0
	to := &splicing{during: func() {
		writes++
		require.Equal(t, 1000, bound.Available())
	}}
	n, err := ioreader.NewReader(t.Context(), &tap{rest: [][]byte{pattern(300)}}, bound).WriteTo(to)
	require.NoError(t, err)
	require.EqualValues(t, 300, n)
	require.Equal(t, 3, writes, "an eighth of the limit at a time")
}

// TestAvailableSlicesPassTogether: what needs no wait is one call to the kernel, and what did not pass is refunded.
func TestAvailableSlicesPassTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketOf(t, 100_000, 100, 10*time.Millisecond)
		for _, limiter := range []core.Limiter{l, core.NewSwitch(l)} {
			time.Sleep(time.Minute) // the bucket is full
			from, to := &tap{rest: [][]byte{pattern(90_000)}}, new(splicing)
			n, err := ioreader.Copy(t.Context(), to, from, ioreader.CopyOptions{Limiter: limiter})
			require.NoError(t, err)
			require.EqualValues(t, 90_000, n)
			require.Equal(t, []int64{90_000}, to.slices)
			require.Equal(t, 10_000, l.Available())
		}
		// Permits that may be held are taken slice by slice.
		from, to := &tap{rest: [][]byte{pattern(90_000)}}, new(splicing)
		_, err := ioreader.Copy(t.Context(), to, from, ioreader.CopyOptions{Limiter: semaphore(t, 100_000)})
		require.NoError(t, err)
		require.Equal(t, int64(12_500), slices.Max(to.slices))
	})
}
