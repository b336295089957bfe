package cookbook

import (
	"context"
	"io"
	"net/http"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// Upload sends a file. All uploads that are given the same limiter share its bandwidth, such as that
// of core.NewTokenBucket(ioreader.PerSecond(8 << 20)): 8 MiB/s.
func Upload(ctx context.Context, url string, file io.Reader, bandwidth core.Limiter) error {
	body := ioreader.NewReader(ctx, file, bandwidth)
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, body)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Downloads serves files, to each user at 1 MiB/s however many requests they make, and to all at
// 100 MiB/s.
func Downloads(files http.Handler) (http.Handler, error) {
	users, err := partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-User"),
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(ioreader.PerSecond(1 << 20)) },
	})
	if err != nil {
		return nil, err
	}
	all, err := core.NewTokenBucket(ioreader.PerSecond(100 << 20))
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(httplimit.Options{
		Global:   &httplimit.Policy{Name: "all", Download: httplimit.Shared(all)},
		Policies: []httplimit.Policy{{Name: "user", Download: users}},
	})
	if err != nil {
		return nil, err
	}
	return limits.Handler(limits.Policy("user")(files)), nil
}
