package throttle

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

// SIGUSR2 also halves a rate that has no whole half, and SIGUSR1 undoes that, however many signals come.
func TestHalvedAndDoubled(t *testing.T) {
	for _, text := range []string{"1/s", "5/s", "1000/1m", "3/1s burst 8", "fixed 5/1m", "sliding 7/1m segments 6"} {
		t.Run(text, func(t *testing.T) {
			first, err := spec.Parse(text)
			assert.NoError(t, err)
			l := changed(first, cli.UserSignal2)
			assert.InDelta(t, perSecondOf(first)/2, perSecondOf(l), 1e-12)
			assert.InDelta(t, perSecondOf(first), perSecondOf(changed(l, cli.UserSignal1)), 1e-12)
			for range 1000 {
				l = changed(l, cli.UserSignal2)
			}
			_, err = l.New("")
			assert.NoError(t, err)
			for range 1000 {
				l = changed(l, cli.UserSignal1)
			}
			_, err = l.New("")
			assert.NoError(t, err)
		})
	}
}

// Numbers may have a point, if they are whole in the end.
func TestNumbersWithAPoint(t *testing.T) {
	for text, want := range map[string]int{"1.5MB/s": 1_500_000, "1.5MB": 1_500_000, "0.5KiB": 512, "2.25k": 2250, "bucket 1.5kB/1.5s": 1500} {
		l, err := new(options).parseRate(text, "")
		assert.NoError(t, err, text)
		assert.Equal(t, want, l[0].Permits, text)
	}
	l, err := new(options).parseRate("1MB", "1.5kB")
	assert.NoError(t, err)
	assert.Equal(t, 1500, l[0].Burst)
	for text, want := range map[string]int64{"1.5MB": 1_500_000, "0": 0, "10MiB": 10 << 20, "7": 7} {
		n, err := new(options).parseSize("--size", text, "")
		assert.NoError(t, err, text)
		assert.Equal(t, want, n, text)
	}
	for _, text := range []string{"1.5", "1.5B", ".5MB"} {
		_, err := new(options).parseRate(text, "")
		assert.Error(t, err, text)
	}
}

func TestLine(t *testing.T) {
	o := options{parts: parts{bytes: true, timer: true, rate: true, eta: true, bar: true}, name: "copy"}
	v := moment{Bytes: 500, Total: 1000, Elapsed: 61, Rate: 100}
	assert.Equal(t, "copy: 500 B 0:01:01 [100 B/s] [====>-----]  50% ETA 0:00:05", o.line(v, 59))
	assert.Equal(t, "copy: 500 B 0:01:01 [100 B/s]  50% ETA 0:00:05", o.line(v, 20))
	v.Total = 0
	assert.Equal(t, "copy: 500 B 0:01:01 [100 B/s]", o.line(v, 80))
	o.parts = parts{average: true}
	assert.Equal(t, "copy: (8 B/s)", o.line(v, 80))
}

func perSecondOf(l spec.Limit) float64 { return float64(l.Permits) / l.Per.Seconds() }

func TestAmount(t *testing.T) {
	assert.Equal(t, "999 B", new(options).amount(999))
	assert.Equal(t, "1.00 kB", new(options).amount(1000))
	assert.Equal(t, "1.50 MiB", (&options{binary: true}).amount(1.5*(1<<20)))
	assert.Equal(t, "0.5 lines", (&options{lines: true}).amount(0.5))
}

// By the clock on the wall, also on a day on which it changes: an entry in the hour that is left out starts when the clock jumps.
func TestScheduleWhenTheClocksChange(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here: ", err)
	}
	s, err := new(options).parseSchedule("03:15,3/s 01:00,1/s 02:30,2/s", "")
	assert.NoError(t, err)
	for utc, want := range map[string]int{"22:30": 3, "00:00": 1, "00:59": 1, "01:00": 2, "01:15": 3} {
		at, err := time.Parse(time.DateOnly+" 15:04", "2026-03-29 "+utc)
		assert.NoError(t, err)
		assert.Equal(t, want, s.at(at.In(berlin))[0].Permits, utc)
	}
}

// reads are the texts that a source returns, one for each Read. before is called before each.
type reads struct {
	texts  []string
	before func()
}

func (r *reads) Read(b []byte) (int, error) {
	if len(r.texts) == 0 {
		return 0, io.EOF
	}
	r.before()
	n := copy(b, r.texts[0])
	r.texts = r.texts[1:]
	return n, nil
}

// TestInterruptedLine: a copy that ends early has written all of the lines that it has counted.
func TestInterruptedLine(t *testing.T) {
	p, err := newPace(nil)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	line := strings.Repeat("x", bufferSize)
	n := 0
	src := &reads{[]string{line, "end\nnext\n"}, func() {
		n++
		if n == 2 {
			cancel()
		}
	}}
	j := &job{options: &options{end: '\n'}, pace: p, sink: &sink{f: f}}
	require.ErrorIs(t, j.copyLines(ctx, src), context.Canceled)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, line+"end\n", string(text))
	require.EqualValues(t, 1, j.passed.Load())
}
