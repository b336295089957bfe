package ioreader_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// FuzzStream plays writes and reads of any sizes, short and failing ones, pauses and new
// limits against a model: bytes that passed are in order and in time, and the bucket lacks
// just those that passed.
func FuzzStream(f *testing.F) {
	f.Add(uint16(100), uint8(1), []byte{1, 50, 2, 200, 3, 9, 4, 100})
	f.Add(uint16(1), uint8(10), []byte{1, 255, 1, 255, 5, 3, 2, 77})
	f.Add(uint16(9999), uint8(255), []byte{2, 255, 4, 0, 1, 1, 6, 20, 2, 9})
	f.Fuzz(func(t *testing.T, limit uint16, tokens uint8, ops []byte) {
		o := core.TokenBucketOptions{
			TokenLimit: int(limit) + 1, TokensPerPeriod: min(int(tokens), int(limit)) + 1, ReplenishmentPeriod: time.Millisecond, QueueLimit: math.MaxInt,
		}
		synctest.Test(t, func(t *testing.T) { playStream(t, o, ops) })
	})
}

func playStream(t *testing.T, o core.TokenBucketOptions, ops []byte) {
	t.Helper()
	l := tokenBucket(t, o)
	under := &scripted{}
	w := ioreader.NewWriter(t.Context(), under, l)
	r := ioreader.NewReader(t.Context(), under, l)
	start, sent, passed := time.Now(), byte(0), 0
	most := o.TokenLimit
	for len(ops) >= 2 && passed < 20_000 {
		op, arg := ops[0]%6, int(ops[1])
		ops = ops[2:]
		under.allow = math.MaxInt
		switch op {
		case 0: // a write that fails, or is short, after some bytes
			under.allow = arg / 2
			fallthrough
		case 1, 2:
			p := make([]byte, arg*int(op*op+1))
			for i := range p {
				p[i] = sent + byte(i)
			}
			want := min(len(p), under.allow)
			n, err := w.Write(p)
			require.Equal(t, want, n)
			require.Equal(t, n < len(p), err != nil)
			sent += byte(n)
			passed += n
		case 3:
			under.allow = arg / 2
			p := make([]byte, arg+1)
			n, err := r.Read(p)
			if err != nil {
				require.ErrorIs(t, err, errScript)
			}
			require.LessOrEqual(t, n, len(p))
			passed += n
		case 4:
			time.Sleep(time.Duration(arg) * time.Millisecond)
		case 5:
			o.TokenLimit = arg*arg + o.TokensPerPeriod
			most = max(most, o.TokenLimit)
			require.NoError(t, l.Update(o))
		}
		elapsed := int(time.Since(start) / time.Millisecond)
		require.LessOrEqual(t, passed, most+elapsed*o.TokensPerPeriod)
		require.Zero(t, l.Statistics().Queued)
	}
	for i, b := range under.got.Bytes() {
		require.Equal(t, byte(i), b)
	}
	time.Sleep(time.Hour)
	require.Equal(t, o.TokenLimit, l.Available())
}

// scripted lets some bytes pass, and then fails.
type scripted struct {
	allow int // bytes that may still pass
	got   bytes.Buffer
}

var errScript = errors.New("script")

func (s *scripted) Write(p []byte) (int, error) {
	n := min(len(p), s.allow)
	s.allow -= n
	s.got.Write(p[:n])
	if n < len(p) {
		if n%2 == 0 {
			return n, nil // a short write without an error
		}
		return n, io.ErrClosedPipe
	}
	return n, nil
}

func (s *scripted) Read(p []byte) (int, error) {
	n := min(len(p), s.allow)
	s.allow -= n
	if n < len(p) && n%2 == 1 {
		return n, errScript
	}
	return n, nil
}
