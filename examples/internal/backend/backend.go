// Package backend runs a program's own server in a process of its own, and asks it at a steady
// rate, for programs that show what limits do under load.
package backend

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Backend is a server in a process of its own, and its clients.
type Backend struct {
	process *Process
	url     string
	client  *http.Client
}

// Start starts this program again, with the arguments that make it call [Serve], and waits
// until it listens. Stop it.
func Start(ctx context.Context, arguments ...string) (*Backend, error) {
	p, err := Spawn(ctx, arguments...)
	if err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(p.output).ReadString('\n')
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	return &Backend{
		process: p,
		url:     "http://" + strings.TrimSpace(address),
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10_000}},
	}, nil
}

// Stop ends the server, and waits until it has ended.
func (b *Backend) Stop() {
	b.client.CloseIdleConnections()
	b.process.Stop()
}

// Get reads the JSON at a path.
func (b *Backend) Get(ctx context.Context, path string, into any) error {
	response, err := b.get(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	return json.NewDecoder(response.Body).Decode(into)
}

// Ask asks for the path / once and returns the status; 0: there was no answer.
func (b *Backend) Ask(ctx context.Context) int {
	response, err := b.get(ctx, "/")
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}

func (b *Backend) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return b.client.Do(request)
}

// askUntil is Ask by a client that gives up so long after due; 0: never.
func (b *Backend) askUntil(ctx context.Context, due time.Time, patience time.Duration) int {
	if patience > 0 {
		until, cancel := context.WithDeadline(ctx, due.Add(patience))
		defer cancel()
		return b.Ask(until)
	}
	return b.Ask(ctx)
}

// Outcome is what became of the requests of a load.
type Outcome struct {
	Took    []time.Duration // from when each was due until it was answered, of those that were done
	Refused int             // with status 503
	Failed  int             // not answered in time, or with another status
}

// Load asks for the path / at a steady rate, in requests a second, whether answers come or not,
// and returns when the last has ended. What a request takes counts from the instant that it
// was due, also if this process was late to ask. A client gives up so long after that; 0: never.
func (b *Backend) Load(ctx context.Context, rate float64, took, patience time.Duration) Outcome {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
		o  Outcome
	)
	ask := func(due time.Time) {
		status := b.askUntil(ctx, due, patience)
		took := time.Since(due)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case status == http.StatusServiceUnavailable:
			o.Refused++
		case status != http.StatusOK || patience > 0 && took > patience:
			o.Failed++
		default:
			o.Took = append(o.Took, took)
		}
	}
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; n < int(rate*took.Seconds()) && ctx.Err() == nil; n++ {
		due := begin.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		wg.Go(func() { ask(due) })
	}
	wg.Wait()
	return o
}

// Process is this program, started again.
type Process struct {
	command *exec.Cmd
	input   io.Closer
	output  io.Reader
}

// Spawn starts this program again with the arguments. It should end when its input does, which
// [Process.Stop] brings about, and so does the end of this one. Stop it.
func Spawn(ctx context.Context, arguments ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{command: exec.CommandContext(ctx, self, arguments...)}
	p.command.Stderr = os.Stderr
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if p.output, err = p.command.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// Stop ends the process' input, and waits until it has ended.
func (p *Process) Stop() {
	_ = p.input.Close()
	_ = p.command.Wait()
}
