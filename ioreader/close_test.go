package ioreader_test

import (
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// stubborn is a limiter whose Refund panics once it is told to.
type stubborn struct {
	*core.TokenBucket

	panics *bool
}

func (s stubborn) Refund(lease core.Lease) {
	if *s.panics {
		panic("no refunds")
	}
	s.TokenBucket.Refund(lease)
}

// sink is what is underneath.
type sink struct {
	net.Conn

	closed int
}

func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

func (s *sink) Close() error {
	s.closed++
	return nil
}

// A limiter that panics as Close gives a batch back keeps nothing open.
func TestCloseClosesWhatIsUnderneathWhateverTheLimiterDoes(t *testing.T) {
	for name, wrap := range map[string]func(*testing.T, *sink, core.Limiter) io.WriteCloser{
		"writer": func(t *testing.T, s *sink, l core.Limiter) io.WriteCloser {
			return ioreader.NewWriter(t.Context(), s, l)
		},
		"connection": func(t *testing.T, s *sink, l core.Limiter) io.WriteCloser {
			c, err := ioreader.NewConn(s, ioreader.ConnOptions{Write: l})
			require.NoError(t, err)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				panics := false
				l := stubborn{perSecond(t, 1_000_000), &panics}
				done := writing(ioreader.NewWriter(t.Context(), io.Discard, l), make([]byte, 100_000))
				synctest.Wait()
				var under sink
				small := wrap(t, &under, l)
				for range 3 { // as another waits too, it takes a batch
					_, err := small.Write(make([]byte, 100))
					require.NoError(t, err)
				}
				panics = true
				require.PanicsWithValue(t, "no refunds", func() { _ = small.Close() })
				require.Equal(t, 1, under.closed)
				panics = false
				require.NoError(t, (<-done).err)
			})
		})
	}
}
