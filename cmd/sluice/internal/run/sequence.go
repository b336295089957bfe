package run

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// sequence lets finished jobs pass in the order of their numbers.
type sequence struct {
	mu      sync.Mutex
	next    int
	waiting map[int]finished
	turns   map[int]func() // of jobs that run: what they do when all before them have been done
	held    int            // bytes of the waiting jobs
	room    *sync.Cond     // signalled when some have passed
}

// finished is a job that waits for its turn.
type finished struct {
	pass func()
	held int // the bytes that its output takes, a file counting as fileHeld
}

func newSequence() *sequence {
	s := &sequence{next: 1, waiting: make(map[int]finished), turns: make(map[int]func())}
	s.room = sync.NewCond(&s.mu)
	return s
}

// How many finished jobs may wait for one before them, and what their output may take, before no more are started.
const (
	mostFinished = 10_000
	mostHeld     = 64 << 20
	fileHeld     = 256 << 10 // 256 open files in all
)

// full reports whether no more jobs are to start. It must be called with s.mu held.
func (s *sequence) full() bool { return len(s.waiting) >= mostFinished || s.held >= mostHeld }

// begins runs f when all before seq have been done, if seq has not been by then.
func (s *sequence) begins(seq int, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == seq {
		f()
	} else {
		s.turns[seq] = f
	}
}

// done runs f, and all that waited for it, when all before seq have been done. Until then the job holds held bytes.
func (s *sequence) done(seq, held int, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[seq] = finished{f, held}
	delete(s.turns, seq)
	s.held += held
	for {
		j, ok := s.waiting[s.next]
		if !ok {
			break
		}
		delete(s.waiting, s.next)
		s.next++
		j.pass()
		s.held -= j.held
		s.room.Broadcast()
	}
	if f, ok := s.turns[s.next]; ok {
		delete(s.turns, s.next)
		f()
	}
}

// wait blocks while too many wait for one that still runs, and ctx is not done.
func (s *sequence) wait(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.full() {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	})
	defer stop()
	for s.full() && ctx.Err() == nil {
		s.room.Wait()
	}
}

// flush lets all pass that wait for one that never ran.
func (s *sequence) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seq := range slices.Sorted(maps.Keys(s.waiting)) {
		s.waiting[seq].pass()
		delete(s.waiting, seq)
	}
}
