package run

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// admission is what a job needs before it may start: a machine that is not busy, a slot, and its turn by the rate. The
// lease holds the slot until the job ends.
type admission struct {
	limiter core.Limiter
	jobs    *core.ConcurrencyLimiter // nil: no limit on how many at once
	slots   slots
}

func newAdmission(o options) (*admission, error) {
	a := new(admission)
	var all []core.Limiter
	if o.load > 0 {
		shed, err := adaptive.NewShed(adaptive.ShedOptions{
			Name: "load", Probe: busy, Above: o.load / 100, Every: time.Second, QueueLimit: math.MaxInt,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, shed)
	}
	if o.jobs > 0 {
		jobs, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
			Name: "jobs", PermitLimit: o.jobs, QueueLimit: math.MaxInt,
		})
		if err != nil {
			return nil, err
		}
		a.jobs = jobs
		all = append(all, jobs)
	}
	rate, err := o.rate.New("rate")
	if err != nil {
		return nil, err
	}
	all = append(all, rate)
	a.limiter, err = core.Chain(all...)
	return a, err
}

// wait waits until a job may start.
func (a *admission) wait(ctx context.Context) (core.Lease, error) { return a.limiter.Acquire(ctx, 1) }

// more changes how many jobs run at once, and returns how many that are now; 0: there is no limit.
func (a *admission) more(by int) int {
	if a.jobs == nil {
		return 0
	}
	o := a.jobs.Options()
	o.PermitLimit = max(o.PermitLimit+by, 1)
	_ = a.jobs.Update(o) // a limit of at least 1 is valid
	return o.PermitLimit
}

// busy returns the share of the machine's processors in use since the last call.
func busy() float64 {
	percent, err := cpu.Percent(0, false)
	if err != nil || len(percent) == 0 {
		return math.NaN() // keeps what was known
	}
	return percent[0] / 100
}

// slots numbers the jobs that run, from 1; the lowest free number is the next.
type slots struct {
	mu   sync.Mutex
	free freeSlots
	most int
}

func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) > 0 {
		return heap.Pop(&s.free).(int) //nolint:forcetypeassert // it holds nothing else
	}
	s.most++
	return s.most
}

func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heap.Push(&s.free, n)
}

type freeSlots []int

func (f freeSlots) Len() int           { return len(f) }
func (f freeSlots) Less(i, j int) bool { return f[i] < f[j] }
func (f freeSlots) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *freeSlots) Push(x any)        { *f = append(*f, x.(int)) } //nolint:forcetypeassert // see take
func (f *freeSlots) Pop() any {
	n := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return n
}

// lanes lets the jobs of one key wait for that key's limit without holding up other keys. Jobs of one key keep their order.
type lanes struct {
	keyed *partition.Keyed[string, string]
	room  chan struct{} // an element for each job that waits
	ready chan *job     // those whose key lets them go on
	held  bool          // the limit is on how many run at once

	mu      sync.Mutex
	waiting map[string][]*job // by key; the first of each is the one that asks
	group   sync.WaitGroup
}

// ahead is how many lines are read beyond one whose key holds it back.
const ahead = 1000

func newLanes(limit spec.Limit) (*lanes, error) {
	keyed, err := partition.New(partition.Options[string, string]{
		Name: "rate per key", MaxPartitions: math.MaxInt,
		Key: func(key string) string { return key },
		New: limit.New,
	})
	if err != nil {
		return nil, err
	}
	return &lanes{keyed: keyed, held: limit.Kind == spec.Concurrency, room: make(chan struct{}, ahead), ready: make(chan *job), waiting: make(map[string][]*job)}, nil
}

// enter has a job wait for its key; it blocks while too many wait.
func (l *lanes) enter(ctx context.Context, j *job) bool {
	select {
	case l.room <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, others := l.waiting[j.key]
	l.waiting[j.key] = append(queue, j)
	if !others {
		l.group.Go(func() { l.serve(ctx, j.key) })
	}
	return true
}

// serve lets the jobs of a key go on, one by one, until none waits.
func (l *lanes) serve(ctx context.Context, key string) {
	for {
		l.mu.Lock()
		queue := l.waiting[key]
		if len(queue) == 0 {
			delete(l.waiting, key)
			l.mu.Unlock()
			return
		}
		j := queue[0]
		l.waiting[key] = queue[1:]
		l.mu.Unlock()
		lease, err := l.keyed.Acquire(ctx, key, 1)
		if err == nil {
			j.keyLease = lease
			select {
			case l.ready <- j:
				<-j.started // the next permit counts from there
			case <-ctx.Done():
				lease.Release()
			}
		}
		<-l.room
	}
}

// takeAnew takes the permit of a job's key when the job starts: while it waited for a slot, the next one would have come.
// If another try of the key's jobs is quicker, the permit that was refunded is its, and the job goes on without one.
func (l *lanes) takeAnew(j *job) {
	if l.held {
		return // as long as the job takes
	}
	l.keyed.Refund(j.key, j.keyLease)
	j.keyLease = l.keyed.TryAcquire(j.key, 1)
}

// close waits until no job waits, and then closes ready.
func (l *lanes) close() {
	l.group.Wait()
	close(l.ready)
}
