package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load has the measurements of a server: responses per second, milliseconds, and microseconds of CPU time.
type load struct{ Rate, Half, Most, Effort float64 }

// closed keeps all connections to a server busy, from a process of its own, until it has given that many answers.
func (b bench) closed(s *server, requests int) (l load, err error) {
	before := s.effort()
	c := b.itself("load", s.address, strconv.Itoa(requests))
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		return load{}, err
	}
	effort := s.effort() - before
	err = json.Unmarshal(text, &l)
	l.Effort = float64(effort.Microseconds()) / float64(requests)
	return l, err
}

// loads is the process of closed: each connection asks again when it has its answer.
func loads(ctx context.Context, address string, requests int) error {
	var (
		all   sync.WaitGroup
		left  atomic.Int64
		mu    sync.Mutex
		took  []time.Duration
		fault error
	)
	left.Store(int64(requests))
	start := time.Now()
	for range connections {
		all.Go(func() {
			times, err := asks(ctx, address, func() bool { return left.Add(-1) >= 0 })
			mu.Lock()
			defer mu.Unlock()
			took, fault = append(took, times...), errors.Join(fault, err)
		})
	}
	all.Wait()
	elapsed := time.Since(start)
	if fault != nil {
		return fault
	}
	if len(took) == 0 {
		return errors.New("no answer")
	}
	slices.Sort(took)
	milliseconds := func(part float64) float64 {
		return float64(took[int(part*float64(len(took)-1))]) / float64(time.Millisecond)
	}
	return json.NewEncoder(os.Stdout).Encode(load{
		Rate: float64(len(took)) / elapsed.Seconds(), Half: milliseconds(0.5), Most: milliseconds(0.99),
	})
}

// asks sends requests over one connection, one after the other, and returns how long each answer took. It reads an
// answer by hand: what the load costs is taken from the server, and must be little.
func asks(ctx context.Context, address string, more func() bool) (took []time.Duration, err error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // nothing is written any more
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	request := []byte("GET / HTTP/1.1\r\nHost: " + address + "\r\n\r\n")
	answer := make([]byte, 16<<10)
	for more() && ctx.Err() == nil {
		start := time.Now()
		if _, err := c.Write(request); err != nil {
			return nil, err
		}
		for n := 0; ; {
			got, err := c.Read(answer[n:])
			if err != nil {
				return nil, err
			}
			n += got
			head := bytes.Index(answer[:n], []byte("\r\n\r\n"))
			if head < 0 || n < head+4+answerBytes {
				continue
			}
			if !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) || n != head+4+answerBytes {
				return nil, fmt.Errorf("not an answer of %d bytes: %q", answerBytes, answer[:n])
			}
			break
		}
		took = append(took, time.Since(start))
	}
	return took, ctx.Err()
}

// pattern is when requests arrive, over 5 s.
type pattern struct {
	name     string
	arrivals func() []time.Duration
}

var patterns = []pattern{
	{"200/s, evenly", func() (all []time.Duration) {
		for at := time.Duration(0); at < 5*time.Second; at += 5 * time.Millisecond {
			all = append(all, at)
		}
		return all
	}},
	{"200/s, Poisson", func() (all []time.Duration) {
		random := rand.New(rand.NewPCG(1, 2))
		for at := time.Duration(0); at < 5*time.Second; at += time.Duration(random.ExpFloat64() * float64(5*time.Millisecond)) {
			all = append(all, at)
		}
		return all
	}},
	{"50 together, every 500 ms", func() (all []time.Duration) {
		for at := time.Duration(0); at < 5*time.Second; at += 500 * time.Millisecond {
			all = append(all, slices.Repeat([]time.Duration{at}, 50)...)
		}
		return all
	}},
}

// open sends a request to each server at each time, whatever became of those before. It returns when they were really
// sent, and how many each server granted.
func (b bench) open(arrivals []time.Duration, servers ...*server) (sent []time.Duration, counts []int64, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	granted := make([]atomic.Int64, len(servers))
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		fault error
	)
	defer all.Wait()
	next := time.NewTimer(0)
	defer next.Stop()
	start := time.Now()
	for _, at := range arrivals {
		next.Reset(time.Until(start.Add(at)))
		select {
		case <-next.C:
		case <-b.ctx.Done():
			return nil, nil, b.ctx.Err()
		}
		sent = append(sent, time.Since(start))
		for i, s := range servers {
			all.Go(func() {
				status, err := get(b.ctx, client, s.address)
				switch {
				case err != nil || status != http.StatusOK && status != http.StatusTooManyRequests:
					mu.Lock()
					defer mu.Unlock()
					fault = errors.Join(fault, fmt.Errorf("%s: status %d, %w", s.name, status, err))
				case status == http.StatusOK:
					granted[i].Add(1)
				}
			})
		}
	}
	all.Wait()
	counts = make([]int64, len(servers))
	for i := range granted {
		counts[i] = granted[i].Load()
	}
	return sent, counts, fault
}

func get(ctx context.Context, client *http.Client, address string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		return 0, err
	}
	a, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, a.Body)
	return a.StatusCode, errors.Join(err, a.Body.Close())
}
