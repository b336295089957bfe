package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestLifecycle: what is waited for, in which order, and what is not once no more jobs are to start.
func TestLifecycle(t *testing.T) {
	type event struct {
		what string
		at   time.Duration
	}
	for _, test := range []struct {
		name string
		late bool          // is waited for
		stop time.Duration // 0: never
		want []event
	}{
		{"late output", true, 0, []event{{"job", 1 * time.Second}, {"flush", 1 * time.Second}, {"late", 3 * time.Second}, {"end", 3 * time.Second}}},
		{"no late output", false, 0, []event{{"job", 1 * time.Second}, {"flush", 1 * time.Second}, {"end", 1 * time.Second}}},
		{"stopped before", true, time.Millisecond, []event{{"job", 1 * time.Second}, {"flush", 1 * time.Second}, {"end", 1 * time.Second}}},
		{"stopped while late output comes", true, 2 * time.Second, []event{{"job", 1 * time.Second}, {"flush", 1 * time.Second}, {"end", 2 * time.Second}}},
		{"stopped behind it", true, 5 * time.Second, []event{{"job", 1 * time.Second}, {"flush", 1 * time.Second}, {"late", 3 * time.Second}, {"end", 3 * time.Second}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				l := newLifecycle(t.Context())
				events := make(chan event, 10)
				note := func(what string) { events <- event{what, time.Since(begun)} }
				if test.stop > 0 {
					defer time.AfterFunc(test.stop, func() { l.stop(errInterrupted) }).Stop()
				}
				l.jobs.Go(func() {
					l.late.Go(func() {
						<-time.NewTimer(3 * time.Second).C
						note("late")
					})
					<-time.NewTimer(time.Second).C
					note("job")
				})
				l.finish(func() { note("flush") }, test.late)
				note("end")
				for _, want := range test.want {
					assert.Equal(t, want, <-events)
				}
				assert.Empty(t, events)
				l.late.Wait()
			})
		})
	}
}

// TestLifecycleEnds: what a job has begun to end is waited for after all else, and endRunning reaches all that run and what
// is added later.
func TestLifecycleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		l := newLifecycle(t.Context())
		l.jobs.Go(func() {
			l.ending(func() { <-time.NewTimer(5 * time.Second).C })
		})
		l.finish(func() {}, true)
		assert.Zero(t, time.Since(begun))
		assert.False(t, l.running.areGone())
		l.waitForEnds()
		assert.Equal(t, 5*time.Second, time.Since(begun))
		assert.True(t, l.running.add(new(process)))
		l.running.remove(new(process))
		l.running = newRunning()
		l.endRunning()
		l.waitForEnds()
		assert.True(t, l.running.areGone())
		assert.False(t, l.running.add(new(process)), "it came too late, and is to be ended at once")
	})
}

// TestReadLeavesAReaderBehind: rows are read until no more jobs are to start, though the input hangs.
func TestReadLeavesAReaderBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		input := make(chan string, 1)
		r := &runner{lifecycle: newLifecycle(t.Context())}
		rs := func(yield func(row, error) bool) {
			for line := range input {
				if !yield(row{whole: []string{line}}, nil) {
					return
				}
			}
		}
		var got []string
		read := make(chan struct{})
		go func() {
			defer close(read)
			for next := range r.read(rs) {
				got = append(got, next.row.whole...)
			}
		}()
		input <- "a"
		synctest.Wait()
		assert.Equal(t, []string{"a"}, got)
		r.stop(errors.New("enough"))
		<-read
		assert.EqualError(t, context.Cause(r.stopping), "enough")
		close(input) // the reader that was left behind
	})
}
