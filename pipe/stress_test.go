package pipe_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

// stressOptions are all ways to limit a pipe, with the limiters that must be whole at the
// end.
func stressOptions(t *testing.T) map[string]func() (pipe.Options, []core.Limiter) {
	t.Helper()
	rate := func() core.Limiter {
		l, err := core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: 20_000, TokensPerPeriod: 5_000, ReplenishmentPeriod: 10 * time.Microsecond, QueueLimit: math.MaxInt,
		})
		require.NoError(t, err)
		return l
	}
	return map[string]func() (pipe.Options, []core.Limiter){
		"unlimited": func() (pipe.Options, []core.Limiter) { return pipe.Options{}, nil },
		"written": func() (pipe.Options, []core.Limiter) {
			l := concurrency(t, 10_000, math.MaxInt)
			return pipe.Options{WriteLimiter: l}, []core.Limiter{l}
		},
		"read": func() (pipe.Options, []core.Limiter) {
			l := concurrency(t, 10_000, math.MaxInt)
			return pipe.Options{ReadLimiter: l}, []core.Limiter{l}
		},
		"bucket": func() (pipe.Options, []core.Limiter) {
			return pipe.Options{WriteLimiter: rate(), ReadLimiter: rate()}, nil
		},
		"chain": func() (pipe.Options, []core.Limiter) {
			l := concurrency(t, 10_000, math.MaxInt)
			c := core.Must(core.Chain(rate(), l))
			return pipe.Options{WriteLimiter: c}, []core.Limiter{l}
		},
		"both": func() (pipe.Options, []core.Limiter) {
			w, r := concurrency(t, 70_000, math.MaxInt), concurrency(t, 3_000, math.MaxInt)
			return pipe.Options{WriteLimiter: w, ReadLimiter: r}, []core.Limiter{w, r}
		},
	}
}

// allBack checks that the limiters have all of their permits.
func allBack(t *testing.T, limiters []core.Limiter) {
	t.Helper()
	for _, l := range limiters {
		available(t, l, l.(core.Reporter).Statistics().Limit)
	}
}

// size returns small sizes mostly, and sometimes large ones.
func size(r *rand.Rand) int {
	if r.IntN(4) > 0 {
		return r.IntN(600)
	}
	return r.IntN(1 << (8 + r.IntN(10)))
}

// TestStressEveryByteInOrder has Writes and Reads of all sizes give up now and then, by a context or by a
// deadline: what they count is what passes, in order, and every permit is returned.
func TestStressEveryByteInOrder(t *testing.T) {
	t.Parallel()
	content := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	for name, options := range stressOptions(t) {
		t.Run(name+", contexts", func(t *testing.T) {
			t.Parallel()
			o, held := options()
			r, w := newPipe(t, o)
			writing, reading := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
			everyByte(t, content, func(b []byte) (int, error) {
				ctx, cancel := impatient(t, writing)
				defer cancel()
				return w.WriteContext(ctx, b)
			}, w.Close, func(b []byte) (int, error) {
				ctx, cancel := impatient(t, reading)
				defer cancel()
				return r.ReadContext(ctx, b)
			})
			allBack(t, held)
		})
		t.Run(name+", deadlines", func(t *testing.T) {
			t.Parallel()
			o, held := options()
			a, b := conns(t, pipe.Options{WriteLimiter: o.WriteLimiter}, pipe.Options{ReadLimiter: o.ReadLimiter})
			writing, reading := rand.New(rand.NewPCG(7, 8)), rand.New(rand.NewPCG(9, 10))
			soon := func(rng *rand.Rand) time.Time { return time.Now().Add(time.Duration(rng.IntN(300_000))) }
			everyByte(t, content, func(p []byte) (int, error) {
				_ = a.SetWriteDeadline(soon(writing))
				return a.Write(p)
			}, a.(interface{ CloseWrite() error }).CloseWrite, func(p []byte) (int, error) {
				_ = b.SetReadDeadline(soon(reading))
				return b.Read(p)
			})
			allBack(t, held)
			assert.NoError(t, a.Close())
			assert.NoError(t, b.Close())
		})
	}
}

// everyByte writes and reads content until all of it has passed.
func everyByte(t *testing.T, content []byte, write func([]byte) (int, error), closeWrite func() error, read func([]byte) (int, error)) {
	t.Helper()
	go func() {
		rng := rand.New(rand.NewPCG(11, 12))
		for left := content; len(left) > 0; {
			n, err := write(left[:min(size(rng), len(left))])
			left = left[n:]
			if err != nil && !gaveUp(err) {
				assert.NoError(t, err)
				break
			}
		}
		assert.NoError(t, closeWrite())
	}()
	rng := rand.New(rand.NewPCG(13, 14))
	got := make([]byte, 0, len(content))
	for {
		buf := make([]byte, size(rng))
		n, err := read(buf)
		got = append(got, buf[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !gaveUp(err) {
			assert.NoError(t, err)
			break
		}
	}
	assert.True(t, bytes.Equal(content, got), "every byte in order: %d of %d", len(got), len(content))
}

// impatient returns a context that sometimes ends soon.
func impatient(t *testing.T, rng *rand.Rand) (context.Context, context.CancelFunc) {
	t.Helper()
	if rng.IntN(3) > 0 {
		return t.Context(), func() {}
	}
	return context.WithTimeout(t.Context(), time.Duration(rng.IntN(200_000)))
}

func gaveUp(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// TestStressWritesStayTogether has many concurrent Writes.
func TestStressWritesStayTogether(t *testing.T) {
	t.Parallel()
	for name, options := range stressOptions(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, held := options()
			r, w := newPipe(t, o)
			const writers, messages = 8, 60
			var all sync.WaitGroup
			for i := range writers {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					for j := range messages {
						m := message(i, j, size(rng)/8)
						n, err := w.Write(m)
						assert.NoError(t, err)
						assert.Equal(t, len(m), n)
					}
				})
			}
			go func() {
				all.Wait()
				assert.NoError(t, w.Close())
			}()
			var next [writers]int
			for {
				var head [12]byte
				_, err := io.ReadFull(r, head[:])
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				i, j, n := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
				require.Less(t, i, uint32(writers))
				require.Equal(t, next[i], int(j), "each writer's own order")
				next[i]++
				body := make([]byte, n)
				_, err = io.ReadFull(r, body)
				require.NoError(t, err)
				require.Equal(t, message(int(i), int(j), int(n))[12:], body)
			}
			for _, n := range next {
				assert.Equal(t, messages, n)
			}
			allBack(t, held)
		})
	}
}

func message(i, j, n int) []byte {
	m := make([]byte, 0, 12+n)
	m = binary.LittleEndian.AppendUint32(m, uint32(i))
	m = binary.LittleEndian.AppendUint32(m, uint32(j))
	m = binary.LittleEndian.AppendUint32(m, uint32(n))
	return append(m, bytes.Repeat([]byte{byte(i + j)}, n)...)
}

// TestStressClose closes an end in the midst: all calls return, and all permits are back.
func TestStressClose(t *testing.T) {
	t.Parallel()
	for name, options := range stressOptions(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(5, 6))
			for range 30 {
				o, held := options()
				r, w := newPipe(t, o)
				var all sync.WaitGroup
				var mu sync.Mutex
				written, read := 0, 0
				for range 3 {
					m := make([]byte, size(rng)+1)
					all.Go(func() {
						for {
							n, err := w.Write(m)
							mu.Lock()
							written += n
							mu.Unlock()
							if err != nil {
								return
							}
						}
					})
				}
				for range 2 {
					buf := make([]byte, size(rng)+1)
					all.Go(func() {
						for {
							n, err := r.Read(buf)
							mu.Lock()
							read += n
							mu.Unlock()
							if err != nil {
								return
							}
						}
					})
				}
				closeReader := rng.IntN(2) == 0
				pause := time.NewTimer(time.Duration(rng.IntN(300_000)))
				<-pause.C
				if closeReader {
					assert.NoError(t, r.Close())
				} else {
					assert.NoError(t, w.Close())
				}
				all.Wait()
				if closeReader {
					assert.GreaterOrEqual(t, written, read)
				} else {
					assert.Equal(t, written, read, "all bytes that were written before the end were read")
				}
				allBack(t, held)
			}
		})
	}
}

// TestStressSets has pipes share a Switch that is set all the time. The bytes come in order, those that hold permits of
// the concurrency limiter are never more than its limit, and at the end nothing is held.
func TestStressSets(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 9))
			held := concurrency(t, 1+random.IntN(5000), 0)
			rate := core.Must(core.NewTokenBucket(core.PerSecond(200_000, 1+random.IntN(5000))))
			chain := core.Must(core.Chain(rate, held))
			limiter := core.NewSwitch(held)
			setting, stop := context.WithCancel(t.Context())
			go func() {
				for r := rand.New(rand.NewPCG(seed, 10)); setting.Err() == nil; {
					time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
					limiter.Set([]core.Limiter{held, rate, chain, nil}[r.IntN(4)])
				}
			}()
			var streams sync.WaitGroup
			for i := range 6 {
				o := pipe.Options{WriteLimiter: limiter, Buffer: 1 + random.IntN(3000)}
				if i%2 == 0 {
					o.ReadLimiter = limiter
				}
				r, w := newPipe(t, o)
				writing, reading := rand.New(rand.NewPCG(seed, uint64(i))), rand.New(rand.NewPCG(seed, uint64(100+i)))
				content := make([]byte, 20_000)
				for i := range content {
					content[i] = byte(random.Uint32())
				}
				streams.Go(func() {
					everyByte(t, content, func(p []byte) (int, error) {
						ctx, cancel := impatient(t, writing)
						defer cancel()
						return w.WriteContext(ctx, p)
					}, w.Close, func(p []byte) (int, error) {
						ctx, cancel := impatient(t, reading)
						defer cancel()
						return r.ReadContext(ctx, p)
					})
				})
			}
			streams.Wait()
			stop()
			time.Sleep(time.Second)
			require.Equal(t, held.Statistics().Limit, held.Available())
			require.Zero(t, held.Statistics().Queued)
			require.Zero(t, rate.Statistics().Queued)
		})
	}
}
