package run

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// No more jobs start while the output of those that have ended takes much, until the one that they wait for has ended.
func TestSequenceIsFull(t *testing.T) {
	for name, held := range map[string]int{"memory": mostHeld / 2, "files": fileHeld, "many": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				jobs := mostFinished
				if held > 0 {
					jobs = mostHeld / held
				}
				s := newSequence()
				passed, entered, more := 0, 0, false
				go func() {
					for seq := 2; seq < 2+jobs; seq++ { // the first still runs
						s.wait(t.Context())
						entered++
						s.done(seq, held, func() { passed++ })
					}
					s.wait(t.Context())
					more = true
				}()
				synctest.Wait()
				assert.Equal(t, jobs, entered)
				assert.False(t, more)
				assert.Zero(t, passed)
				s.done(1, held, func() { passed++ })
				synctest.Wait()
				assert.True(t, more)
				assert.Equal(t, 1+jobs, passed)
				assert.Zero(t, s.held)
			})
		})
	}
}
