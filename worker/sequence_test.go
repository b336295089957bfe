package worker_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/worker"
)

// Whatever the order, which changes, the permits, and who gives up: the tasks start that start in a pool of simple lists.
func TestSequences(t *testing.T) {
	for kind, through := range map[string]func(l *core.ConcurrencyLimiter) core.Limiter{
		"core's": func(l *core.ConcurrencyLimiter) core.Limiter { return l },
		"user's": func(l *core.ConcurrencyLimiter) core.Limiter { return &odd{ConcurrencyLimiter: l} },
		"switch": func(l *core.ConcurrencyLimiter) core.Limiter { return core.NewSwitch(l) },
		"chain":  func(l *core.ConcurrencyLimiter) core.Limiter { return core.Must(core.Chain(core.Unlimited(), l)) },
	} {
		for seed := range uint64(15) {
			t.Run(fmt.Sprintf("%s/%d", kind, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { newSequence(t, through, seed).run() })
			})
		}
	}
}

// seqTask is a task of a sequence.
type seqTask struct {
	name    int
	permits int
	do      bool            // of a Do or a Group, so that it can be taken back when it is accepted
	mode    core.QueueOrder // of the time of the call
	flow    core.Flow
	cancel  context.CancelFunc
	release chan struct{}
}

// seqSection is tasks that wait, of one order.
type seqSection struct {
	mode   core.QueueOrder
	byAge  []*seqTask
	byFlow *fair.Queue[*seqTask]
}

// sequence is a pool, and the lists of the model.
type sequence struct {
	t      *testing.T
	r      *rand.Rand
	l      *core.ConcurrencyLimiter
	p      *worker.Pool
	o      core.ConcurrencyLimiterOptions
	queue  int
	slots  int
	most   int // permits of a task
	names  int
	others []core.Lease // permits that strangers hold

	sections []*seqSection
	blocked  []*seqTask
	asks     *seqTask // the limiter is being asked for its lease
	running  []*seqTask
	started  chan int
	want     []int // what starts in this step
	done     int   // of accepted tasks
}

func newSequence(t *testing.T, through func(l *core.ConcurrencyLimiter) core.Limiter, seed uint64) *sequence {
	t.Helper()
	s := &sequence{t: t, r: rand.New(rand.NewPCG(seed, 4)), started: make(chan int, 10)}
	s.o = core.ConcurrencyLimiterOptions{PermitLimit: 2 + s.r.IntN(3), QueueLimit: math.MaxInt}
	s.l = core.Must(core.NewConcurrencyLimiter(s.o))
	s.queue = []int{0, 3, 1000}[seed%3]
	workers := []int{0, 0, 1, 2, 3}[s.r.IntN(5)]
	s.slots = workers
	if workers == 0 {
		s.slots = math.MaxInt
	}
	s.most = 2
	if s.queue == 3 {
		s.most = 1
	}
	s.p = newPool(t, worker.Options{Limiter: through(s.l), Queue: s.queue, Workers: workers})
	return s
}

func (s *sequence) run() {
	for range 300 {
		switch s.r.IntN(12) {
		case 0, 1, 2, 3, 4:
			s.submit()
		case 5, 6, 7:
			s.end()
		case 8, 9:
			s.giveUp()
		case 10:
			s.o.QueueOrder = []core.QueueOrder{core.OldestFirst, core.NewestFirst, core.FairShare}[s.r.IntN(3)]
			s.o.PermitLimit = 2 + s.r.IntN(3)
			require.NoError(s.t, s.l.Update(s.o))
		case 11:
			s.stranger()
		}
		s.advance()
		s.compare()
	}
	for _, l := range s.others {
		l.Release()
	}
	s.others = nil
	s.advance()
	for len(s.running) > 0 {
		s.compare()
		s.end()
		s.advance()
	}
	s.compare()
	drained(s.t, s.p, s.l)
}

func (s *sequence) submit() {
	k := &seqTask{name: s.names, mode: s.o.QueueOrder, permits: s.r.IntN(s.most + 1), do: s.r.IntN(2) == 0, release: make(chan struct{})}
	if s.most == 1 {
		k.permits = 1
	}
	if k.do {
		k.permits = 1
	}
	s.names++
	k.flow = core.Flow{Key: string(rune('a' + s.r.IntN(3))), Weight: s.r.IntN(3), Priority: s.r.IntN(2)}
	ctx, cancel := context.WithCancel(core.WithFlow(s.t.Context(), k.flow))
	k.cancel = cancel
	task := func(context.Context) error {
		s.started <- k.name
		<-k.release
		return nil
	}
	group := !k.do && s.r.IntN(2) == 0
	k.do = k.do || group
	go func() {
		switch {
		case group:
			g := s.p.Group(ctx)
			g.GoN(k.permits, task)
			_ = g.Wait()
		case k.do:
			_, _ = worker.Do(ctx, s.p, func(ctx context.Context) (int, error) { return 0, task(ctx) })
		default:
			_ = s.p.SubmitN(ctx, k.permits, task)
		}
	}()
	if s.queue > 0 {
		s.blocked = append(s.blocked, k)
	} else {
		s.push(k)
	}
}

func (s *sequence) push(k *seqTask) {
	n := len(s.sections)
	mode := k.mode
	if n == 0 || s.sections[n-1].mode != mode {
		s.sections = append(s.sections, &seqSection{mode: mode, byFlow: &fair.Queue[*seqTask]{}})
		n++
	}
	if sec := s.sections[n-1]; mode == core.FairShare {
		sec.byFlow.Push(&fair.Item[*seqTask]{N: max(k.permits, 1), Value: k}, fair.Flow(k.flow))
	} else {
		sec.byAge = append(sec.byAge, k)
	}
}

func (s *sequence) waiting() (n int) {
	for _, sec := range s.sections {
		n += len(sec.byAge) + sec.byFlow.Len()
	}
	return n
}

func (s *sequence) pop() (k *seqTask) {
	for s.sections[0].byFlow.Len()+len(s.sections[0].byAge) == 0 {
		s.sections = s.sections[1:]
	}
	switch sec := s.sections[0]; sec.mode {
	case core.OldestFirst:
		k, sec.byAge = sec.byAge[0], sec.byAge[1:]
	case core.NewestFirst:
		last := len(sec.byAge) - 1
		k, sec.byAge = sec.byAge[last], sec.byAge[:last]
	default:
		it := sec.byFlow.Next()
		sec.byFlow.Take(it)
		k = it.Value
	}
	return k
}

func (s *sequence) held() (n int) {
	for _, k := range s.running {
		n += k.permits
	}
	for _, l := range s.others {
		n += l.Permits()
	}
	return n
}

// advance starts what can start, in its turn, and makes the next task ask.
func (s *sequence) advance() {
	for {
		asking := 0
		if s.asks != nil {
			asking = 1
		}
		for s.queue > 0 && len(s.blocked) > 0 && s.waiting()+asking < s.queue {
			s.push(s.blocked[0])
			s.blocked = s.blocked[1:]
		}
		if s.asks == nil {
			if s.waiting() == 0 || len(s.running) >= s.slots {
				break
			}
			s.asks = s.pop()
		}
		if s.o.PermitLimit-s.held() < max(s.asks.permits, 1) {
			break
		}
		s.running = append(s.running, s.asks)
		s.want = append(s.want, s.asks.name)
		s.asks = nil
	}
}

func (s *sequence) end() {
	if len(s.running) == 0 {
		return
	}
	i := s.r.IntN(len(s.running))
	close(s.running[i].release)
	s.running = slices.Delete(s.running, i, i+1)
	s.done++
}

// giveUp ends the context of a task that waits, but not in a section by flow: TestCallsThatGiveUp does that.
func (s *sequence) giveUp() {
	var all []*seqTask
	for _, sec := range s.sections {
		all = append(all, sec.byAge...)
	}
	all = append(all, s.blocked...)
	if s.asks != nil {
		all = append(all, s.asks)
	}
	if s.queue > 0 {
		all = slices.DeleteFunc(all, func(k *seqTask) bool { return !k.do && !slices.Contains(s.blocked, k) })
	}
	if len(all) == 0 {
		return
	}
	k := all[s.r.IntN(len(all))]
	k.cancel()
	switch i := slices.Index(s.blocked, k); {
	case i >= 0:
		s.blocked = slices.Delete(s.blocked, i, i+1)
		return
	case k == s.asks:
		s.asks = nil
	default:
		for _, sec := range s.sections {
			sec.byAge = slices.DeleteFunc(sec.byAge, func(other *seqTask) bool { return other == k })
		}
	}
	if s.queue > 0 {
		s.done++
	}
}

// stranger takes or returns a permit beside the pool.
func (s *sequence) stranger() {
	if len(s.others) > 0 && s.r.IntN(2) == 0 {
		s.others[0].Release()
		s.others = s.others[1:]
		return
	}
	if l := s.l.TryAcquire(1); l.Acquired() {
		s.others = append(s.others, l)
	}
}

func (s *sequence) compare() {
	synctest.Wait()
	var started []int
	for len(s.started) > 0 {
		started = append(started, <-s.started)
	}
	require.ElementsMatch(s.t, s.want, started) // what can start at the same time is in no order
	s.want = nil
	got := s.p.Statistics()
	require.Equal(s.t, len(s.running), got.Running)
	require.Equal(s.t, uint64(s.done), got.Done)
	queued := 0
	if s.queue > 0 {
		queued = s.waiting()
		if s.asks != nil {
			queued++
		}
	}
	require.Equal(s.t, queued, got.Queued)
	require.Equal(s.t, max(s.o.PermitLimit-s.held(), 0), s.l.Available())
}
