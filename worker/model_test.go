package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// Any sequence of calls has the outcome that it has for a pool made of three lists: the
// tasks that run, those that are queued, and the callers who wait to submit. Each byte is
// a call; after each, everyone comes to rest, and the lists are compared.
func FuzzPool(f *testing.F) {
	f.Add([]byte{0x11}, []byte("\x00\x00\x00\x01\x01\x02\x0a\x12\x06\x02\x02\x02"))
	f.Add([]byte{0x20}, []byte("\x01\x01\x01\x04\x02\x02\x06\x01\x02\x07"))
	f.Add([]byte{0x32}, []byte("\x03\x03\x03\x03\x03\x03\x05\x0d\x05\x02\x02\x06\x0f\x02\x02\x02"))
	f.Add([]byte{0x4d}, []byte("\x01\x03\x01\x03\x01\x03\x05\x04\x0c\x07\x02\x02\x02\x02\x06"))
	f.Add([]byte{0x66}, []byte("\x03\x03\x03\x03\x03\x03\x05\x0d\x05\x02\x02\x06\x0f\x02\x02\x02"))
	f.Fuzz(func(t *testing.T, config, calls []byte) {
		if len(config) == 0 || len(calls) > 200 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, int(config[0]&3)+1, int(config[0]>>2&3), int(config[0]>>4&3), config[0]>>6&1 == 1)
			for _, c := range calls {
				m.call(c)
				m.compare()
			}
			m.finish()
		})
	})
}

// TestModel runs the fuzz target's machinery on long pseudo-random sequences.
func TestModel(t *testing.T) {
	for seed := range 128 {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, seed&3+1, seed>>2&3, seed>>4&3, seed>>6&1 == 1)
			x := uint32(seed*7919 + 1)
			for range 300 {
				x = x*1664525 + 1013904223
				c := byte(x >> 24)
				if c&7 >= 6 && x>>8&31 != 0 {
					c ^= 7 // Wait and Close less often
				}
				m.call(c)
				m.compare()
			}
			m.finish()
		})
	}
}

// modelTask is a task of the test's, in whichever list.
type modelTask struct {
	do       bool
	release  chan error // what it returns, sent by the test
	started  bool
	returned chan error // what the caller got
	cancel   context.CancelFunc
}

type model struct {
	t        *testing.T
	p        *worker.Pool
	l        *core.ConcurrencyLimiter
	capacity int // tasks that may run
	room     int // tasks that may be queued

	running, queued, blocked []*modelTask

	closed  bool
	stats   worker.Statistics
	failing bool         // an error is kept for Wait
	waits   []chan error // Wait calls
	closes  []chan error // Close calls
}

// newModel returns the model of a pool whose limiter is core's or a user's.
func newModel(t *testing.T, permits, queue, workers int, users bool) *model {
	t.Helper()
	m := &model{t: t, l: concurrency(t, permits), capacity: permits, room: queue}
	if workers > 0 {
		m.capacity = min(m.capacity, workers)
	}
	o := worker.Options{Limiter: m.l, Queue: queue, Workers: workers}
	if users {
		o.Limiter = &odd{ConcurrencyLimiter: m.l}
	}
	m.p = newPool(t, o)
	return m
}

// call makes the call that a byte stands for, on the pool and on the model.
func (m *model) call(c byte) {
	which := int(c >> 3)
	switch c & 7 {
	case 0:
		m.trySubmit()
	case 1, 3:
		m.submit(c&7 == 3)
	case 2:
		m.end(which)
	case 4:
		m.cancelBlocked(which)
	case 5:
		m.cancelDo(which)
	case 6:
		m.wait()
	case 7:
		m.close(which&1 == 1)
	}
}

func (m *model) task() *modelTask {
	ctx, cancel := context.WithCancel(m.t.Context())
	_ = ctx
	return &modelTask{release: make(chan error), returned: make(chan error, 1), cancel: cancel}
}

// body is the task itself: it runs until the test tells it how to end.
func (k *modelTask) body(context.Context) error {
	k.started = true
	err := <-k.release
	if errors.Is(err, errPanic) {
		panic(err)
	}
	return err
}

var errPanic = errors.New("panic")

func (m *model) trySubmit() {
	k := m.task()
	err := m.p.TrySubmit(k.body)
	switch {
	case m.closed:
		require.Equal(m.t, worker.ErrClosed, err)
	case len(m.blocked) == 0 && len(m.queued) == 0 && len(m.running) < m.capacity:
		require.NoError(m.t, err)
		m.running = append(m.running, k)
	case len(m.queued) < m.room:
		require.NoError(m.t, err)
		m.queued = append(m.queued, k)
	default:
		require.ErrorIs(m.t, err, core.ErrRejected)
	}
}

func (m *model) submit(do bool) {
	k := m.task()
	k.do = do
	ctx, cancel := context.WithCancel(m.t.Context())
	k.cancel = cancel
	go func() {
		if !do {
			k.returned <- m.p.Submit(ctx, k.body)
			return
		}
		_, err := worker.Do(ctx, m.p, func(ctx context.Context) (int, error) { return 0, k.body(ctx) })
		k.returned <- err
	}()
	synctest.Wait()
	if m.closed {
		require.Equal(m.t, worker.ErrClosed, returned(m.t, k.returned))
		return
	}
	m.blocked = append(m.blocked, k)
	m.advance()
}

// advance moves tasks on as far as there is room.
func (m *model) advance() {
	for {
		switch {
		case len(m.queued) > 0 && len(m.running) < m.capacity:
			m.running, m.queued = append(m.running, m.queued[0]), m.queued[1:]
		case len(m.blocked) > 0 && len(m.queued) == 0 && len(m.running) < m.capacity:
			m.running = append(m.running, m.accept())
		case len(m.blocked) > 0 && len(m.queued) < m.room:
			m.queued = append(m.queued, m.accept())
		default:
			return
		}
	}
}

// accept takes the first of those who wait to submit.
func (m *model) accept() *modelTask {
	k := m.blocked[0]
	m.blocked = m.blocked[1:]
	if !k.do {
		require.NoError(m.t, returned(m.t, k.returned))
	}
	return k
}

// end ends a task that runs: well, or with an error, or in a panic.
func (m *model) end(which int) {
	if len(m.running) == 0 {
		return
	}
	i := which / 3 % len(m.running)
	k := m.running[i]
	m.running = slices.Delete(m.running, i, i+1)
	err := []error{nil, errTask, errPanic}[which%3]
	synctest.Wait()
	k.release <- err
	synctest.Wait()
	m.stats.Done++
	switch which % 3 {
	case 1:
		m.stats.Failed++
	case 2:
		m.stats.Panicked++
	}
	if k.do {
		if k.cancel != nil {
			require.ErrorIs(m.t, returned(m.t, k.returned), err)
		}
	} else {
		m.failing = m.failing || err != nil
	}
	idle := len(m.running)+len(m.queued) == 0
	m.advance()
	if idle && len(m.running) > 0 {
		m.moment()
	}
}

// moment accounts for a pool that had no task till a Submit that waited got a permit: to
// Wait that may have been the end, or not.
func (m *model) moment() {
	var waits []chan error
	for _, c := range m.waits {
		select {
		case err := <-c:
			if m.failing {
				require.Error(m.t, err)
			} else {
				require.NoError(m.t, err)
			}
		default:
			waits = append(waits, c)
		}
	}
	require.Contains(m.t, []int{0, len(m.waits)}, len(waits), "all, or none")
	m.failing = m.failing && len(waits) == len(m.waits)
	m.waits = waits
}

func (m *model) cancelBlocked(which int) {
	if len(m.blocked) == 0 {
		return
	}
	i := which % len(m.blocked)
	k := m.blocked[i]
	m.blocked = slices.Delete(m.blocked, i, i+1)
	k.cancel()
	require.Equal(m.t, context.Canceled, returned(m.t, k.returned))
}

// cancelDo ends the context of a Do whose task is queued or runs.
func (m *model) cancelDo(which int) {
	var calls []*modelTask
	for _, k := range slices.Concat(m.running, m.queued) {
		if k.do && k.cancel != nil {
			calls = append(calls, k)
		}
	}
	if len(calls) == 0 {
		return
	}
	k := calls[which%len(calls)]
	k.cancel()
	k.cancel = nil
	require.Equal(m.t, context.Canceled, returned(m.t, k.returned))
	if i := slices.Index(m.queued, k); i >= 0 {
		m.queued = slices.Delete(m.queued, i, i+1)
		m.stats.Done++
		m.stats.Failed++
		m.advance()
	}
}

func (m *model) wait() {
	c := make(chan error, 1)
	go func() { c <- m.p.Wait(m.t.Context()) }()
	m.waits = append(m.waits, c)
}

// close closes the pool: to be drained, or with a context that is done.
func (m *model) close(done bool) {
	ctx, cancel := context.WithCancel(m.t.Context())
	if done {
		cancel()
	} else {
		m.t.Cleanup(cancel)
	}
	c := make(chan error, 1)
	go func() { c <- m.p.Close(ctx) }()
	synctest.Wait()
	m.closed = true
	for _, k := range m.blocked {
		require.Equal(m.t, worker.ErrClosed, returned(m.t, k.returned))
	}
	m.blocked = nil
	if !done || len(m.running)+len(m.queued) == 0 {
		m.closes = append(m.closes, c)
		return
	}
	require.ErrorIs(m.t, returned(m.t, c), context.Canceled)
	for _, k := range m.queued {
		m.stats.Done++
		m.stats.Failed++
		if k.do {
			require.Equal(m.t, worker.ErrClosed, returned(m.t, k.returned))
		} else {
			m.failing = true
		}
	}
	m.queued = nil
}

// compare checks that the pool is as the model is.
func (m *model) compare() {
	m.t.Helper()
	if len(m.running)+len(m.queued) == 0 {
		for i, c := range m.waits {
			if err := returned(m.t, c); m.failing {
				require.Error(m.t, err, "Wait %d of %d", i, len(m.waits))
			} else {
				require.NoError(m.t, err)
			}
		}
		m.failing = m.failing && len(m.waits) == 0
		for _, c := range m.closes {
			require.NoError(m.t, returned(m.t, c))
		}
		m.waits, m.closes = nil, nil
	}
	m.stats.Running, m.stats.Queued = len(m.running), len(m.queued)
	counts(m.t, m.p, m.stats)
	for _, k := range m.running {
		require.True(m.t, k.started)
	}
	for _, k := range slices.Concat(m.queued, m.blocked) {
		require.False(m.t, k.started)
	}
	require.Equal(m.t, m.l.Statistics().Limit-len(m.running), m.l.Available())
	for _, c := range slices.Concat(m.waits, m.closes) {
		waiting(m.t, c)
	}
}

// finish ends all tasks, and checks that nothing is left.
func (m *model) finish() {
	for len(m.running)+len(m.queued)+len(m.blocked) > 0 {
		m.end(0)
		m.compare()
	}
	drained(m.t, m.p, m.l)
}
