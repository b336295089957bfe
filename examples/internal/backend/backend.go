// Package backend runs an example's server in a separate process and sends it requests at a steady
// rate, for examples that show the effect of limits under load.
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

// Backend is a server in a separate process, and its clients.
type Backend struct {
	process *Process
	url     string
	client  *http.Client
}

// Start starts this program again, with arguments that make it call [Serve], and waits
// until it listens. Call Stop at the end.
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

// Stop stops the server and waits until it has exited.
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

// Ask requests the path / once and returns the status, or 0 if there was no response.
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

// askUntil is Ask by a client that gives up the given time after due. 0 means that it never gives up.
func (b *Backend) askUntil(ctx context.Context, due time.Time, patience time.Duration) int {
	if patience > 0 {
		until, cancel := context.WithDeadline(ctx, due.Add(patience))
		defer cancel()
		return b.Ask(until)
	}
	return b.Ask(ctx)
}

// Outcome holds the results of a load.
type Outcome struct {
	Took    []time.Duration // latency of each successful request, from the time it was due
	Refused int             // with status 503
	Failed  int             // no response in time, or another status
}

// Load requests the path / at a steady rate, in requests per second, whether or not responses arrive, and
// returns when the last request has ended. A latency counts from the time the request was due, even if
// this process sent it late. A client gives up after patience. 0 means that it never gives up.
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
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; n < int(rate*took.Seconds()) && ctx.Err() == nil; n++ {
		due := start.Add(time.Duration(float64(n) / rate * float64(time.Second)))
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

// Spawn starts this program again with the arguments. The new process should exit when its stdin is closed.
// [Process.Stop] closes it, and so does the exit of this process. Call Stop at the end.
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

// Stop closes the process's stdin and waits until the process has exited.
func (p *Process) Stop() {
	_ = p.input.Close()
	_ = p.command.Wait()
}
