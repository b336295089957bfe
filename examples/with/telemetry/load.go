package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/sluice-go/sluice/core"
)

// load makes requests until ctx is done. Client n makes 10·n per second, so the later clients exceed
// the limit per client.
func load(ctx context.Context, base string, clients int) error {
	var group sync.WaitGroup
	failures := make(chan error, clients)
	for n := range clients {
		group.Go(func() {
			if err := requests(ctx, base, fmt.Sprint("client-", n+1), 10*(n+1)); err != nil && ctx.Err() == nil {
				failures <- err
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

func requests(ctx context.Context, base, key string, perSecond int) error {
	pace, err := core.NewTokenBucket(core.PerSecond(perSecond, 1))
	if err != nil {
		return err
	}
	for {
		if _, err := pace.Acquire(ctx, 1); err != nil {
			return nil //nolint:nilerr // the load is over
		}
		if err := get(ctx, base+"/api", key, io.Discard); err != nil {
			return err
		}
	}
}

// get copies a response, whatever its status.
func get(ctx context.Context, url, key string, to io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("X-Api-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(to, answer.Body)
	return err
}

// scrape requests the metrics as Prometheus does and prints those of Sluice, without empty histogram
// buckets.
func scrape(ctx context.Context, base string, out io.Writer) error {
	var text strings.Builder
	if err := get(ctx, base+"/metrics", "", &text); err != nil {
		return err
	}
	lines := bufio.NewScanner(strings.NewReader(text.String()))
	for lines.Scan() {
		line := lines.Text()
		if !strings.Contains(line, "sluice_") || strings.Contains(line, "_bucket{") && strings.HasSuffix(line, " 0") {
			continue
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return lines.Err()
}
