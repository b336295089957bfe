package proxy

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWatch: of many exchanges each ends at its own instant or not at all, and none stays in line.
func TestWatch(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playWatch(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// modelled is an exchange, and what is known of it.
type modelled struct {
	*exchange

	turn   bool // the backend's
	client int
	since  time.Time
	ended  time.Time // zero: it goes on
}

func (m *modelled) over() bool {
	m.watch.mu.Lock()
	defer m.watch.mu.Unlock()
	return !m.ended.IsZero()
}

// due returns when it is to end, if nothing happens.
func (m *modelled) due() (at time.Time, ends bool) {
	return m.since.Add(silence), m.turn
}

// step does one thing.
func (m *modelled) step(what int) {
	switch what {
	case 0:
		m.seeks()
		m.turn = false
		return
	case 1:
		m.goesOn()
	case 2:
		m.toClient()
		m.client++
		m.turn = false
		return
	default:
		if m.client == 0 {
			return
		}
		m.toBackend()
		m.client--
	}
	m.turn, m.since = m.client == 0, time.Now()
}

func playWatch(t *testing.T, random *rand.Rand) {
	t.Helper()
	w := newWatch(silence)
	all := make([]*modelled, 1+random.IntN(8))
	for i := range all {
		m := new(modelled)
		m.exchange = &exchange{watch: w, cancel: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			m.ended = time.Now()
		}}
		all[i] = m
	}
	for range 200 {
		if m := all[random.IntN(len(all))]; !m.over() {
			m.step(random.IntN(4))
		}
		time.Sleep(time.Duration(random.IntN(int(silence / 4))))
		synctest.Wait()
		compare(t, w, all)
	}
	time.Sleep(2 * silence)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Nil(t, w.first)
	assert.Nil(t, w.last)
	assert.False(t, w.armed, "no timer runs for nobody")
}

func compare(t *testing.T, w *watch, all []*modelled) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := 0
	for i, m := range all {
		at, ends := m.due()
		if ends && !at.After(time.Now()) {
			require.Equal(t, at, m.ended, "exchange %d of %d", i, len(all))
			continue
		}
		require.Zero(t, m.ended, "exchange %d of %d", i, len(all))
		if ends {
			waiting++
		}
	}
	inLine := 0
	for x := w.first; x != nil; x = x.after {
		inLine++
	}
	require.Equal(t, waiting, inLine)
}
