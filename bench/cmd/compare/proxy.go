package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const connections = 32

// proxies sets sluice proxy beside net/http/httputil.ReverseProxy alone and beside nginx with limit_req.
func (b bench) proxies() error {
	backend, err := b.backend()
	if err != nil {
		return err
	}
	defer backend.stop()
	if err := b.requests(backend.address); err != nil {
		return err
	}
	return b.grants(backend.address)
}

// requests measures answers, latency and CPU time under limits that refuse nothing. Each server has the same
// number of requests in each round, and the servers take turns.
func (b bench) requests(backend string) error {
	header(fmt.Sprintf("HTTP responses of 1 KiB over %d connections, limits by address that reject nothing, medians of %d rounds of %d requests:",
		connections, b.requestRounds, b.requestsEach))
	ours, alone, nginx, stop, err := b.three(backend, "1000000/s burst 1000000", "rate=1000000r/s", "burst=1000000")
	if err != nil {
		return err
	}
	defer stop()
	all := []*server{ours, alone, nginx}
	measured := make(map[*server][]load)
	for n := range b.requestRounds + 1 {
		for i := range all {
			s := all[(i+n)%len(all)] // the order rotates
			l, err := b.closed(s, b.requestsEach)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if n > 0 { // the first round is to warm up
				measured[s] = append(measured[s], l)
			}
		}
	}
	for _, rival := range all[1:] {
		for _, m := range []struct {
			what string
			of   func(load) float64
			text string
		}{
			{"responses", func(l load) float64 { return l.Rate }, "%.0f/s"},
			{"p50", func(l load) float64 { return l.Half }, "%.2f ms"},
			{"p99", func(l load) float64 { return l.Most }, "%.2f ms"},
			{"CPU time per response", func(l load) float64 { return l.Effort }, "%.1f µs"},
		} {
			r := row{what: m.what, format: func(v float64) string { return fmt.Sprintf(m.text, v) }}
			for i := range b.requestRounds {
				r.ours = append(r.ours, m.of(measured[ours][i]))
				r.theirs = append(r.theirs, m.of(measured[rival][i]))
			}
			r.print(rival.name)
		}
	}
	return nil
}

// grants counts what sluice and nginx grant of the same arrivals, and what sluice simulate foretells of them.
func (b bench) grants(backend string) error {
	const rate, burst, limit = 100, 20, "100/s burst 20"
	say("\nRequests granted of the same arrivals, limit %s, 5 s each; each arrival goes to both:\n\n", limit)
	say("| arrivals | requests | predicted | sluice | nginx |\n|---|--:|--:|--:|--:|\n")
	for _, pattern := range patterns {
		ours, _, nginx, stop, err := b.three(backend, limit, fmt.Sprintf("rate=%dr/s", rate), fmt.Sprintf("burst=%d", burst))
		if err != nil {
			return err
		}
		sent, granted, err := b.open(pattern.arrivals(), ours, nginx)
		stop()
		if err != nil {
			return err
		}
		predicted, err := b.predicted(sent, limit)
		if err != nil {
			return err
		}
		say("| %s | %d | %d | %d | %d |\n", pattern.name, len(sent), predicted, granted[0], granted[1])
	}
	return nil
}

// predicted returns the number that sluice simulate grants of the arrivals.
func (b bench) predicted(sent []time.Duration, limit string) (int, error) {
	var log strings.Builder
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, at := range sent {
		_, _ = fmt.Fprintf(&log, "{\"ts\":%q}\n", start.Add(at).Format(time.RFC3339Nano))
	}
	file := filepath.Join(b.dir, "arrivals.log")
	if err := os.WriteFile(file, []byte(log.String()), 0o600); err != nil {
		return 0, err
	}
	c := b.command(fmt.Sprintf("sluice simulate --json --fields time=ts --limit '%s' %s", limit, file))
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(out)
	if err != nil {
		return 0, err
	}
	if err := c.Wait(); err != nil {
		return 0, err
	}
	var report struct{ Granted, Bad int }
	if err := json.Unmarshal(text, &report); err != nil {
		return 0, err
	}
	if report.Bad > 0 {
		return 0, fmt.Errorf("simulate could not read %d lines", report.Bad)
	}
	return report.Granted, nil
}
