package ioreader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

func ExamplePerSecond() {
	o := ioreader.PerSecond(100_000)
	fmt.Println(o.TokenLimit, "bytes immediately,", o.TokensPerPeriod, "each", o.ReplenishmentPeriod)
	// Output: 1460 bytes immediately, 1 each 10µs
}

func ExampleNewWriter() {
	limiter := core.Must(core.NewTokenBucket(ioreader.PerSecond(1000)))
	start := time.Now()
	w := ioreader.NewWriter(context.Background(), io.Discard, limiter)
	n, err := io.Copy(w, strings.NewReader(strings.Repeat("a", 1500)))
	fmt.Println(n, err, time.Since(start) >= 40*time.Millisecond) // 1460 bytes pass immediately
	// Output: 1500 <nil> true
}

func ExampleNewReader() {
	limiter := core.Must(core.NewTokenBucket(ioreader.PerSecond(1 << 20)))
	r := ioreader.NewReader(context.Background(), strings.NewReader("some text"), limiter)
	text, err := io.ReadAll(r)
	fmt.Println(string(text), err)
	// Output: some text <nil>
}

func ExampleCopy() {
	limiter := core.Must(core.NewTokenBucket(ioreader.PerSecond(1 << 20)))
	n, err := ioreader.Copy(context.Background(), os.Stdout, strings.NewReader("some text\n"), ioreader.CopyOptions{
		Limiter: limiter,
		Total:   10,
		OnProgress: func(p ioreader.Progress) {
			fmt.Printf("%d of %d bytes\n", p.Bytes, p.Total)
		},
	})
	fmt.Println(n, err)
	// Output:
	// some text
	// 10 of 10 bytes
	// 10 <nil>
}

// The limiter knows that the other bytes would come after the deadline, and does not wait for it.
func ExampleCopy_deadline() {
	hourly := core.Must(core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: 4, TokensPerPeriod: 4, ReplenishmentPeriod: time.Hour, QueueLimit: 100,
	}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := ioreader.Copy(ctx, io.Discard, strings.NewReader("some text"), ioreader.CopyOptions{Limiter: hourly})
	fmt.Println(n, errors.Is(err, context.DeadlineExceeded), errors.Is(err, core.ErrRejected))
	// Output: 4 true true
}

func ExampleNewConn() {
	limiter := core.Must(core.NewTokenBucket(ioreader.PerSecond(1 << 20)))
	under, peer := net.Pipe()
	go func() {
		fmt.Fprint(peer, "hello")
		peer.Close()
	}()
	c := core.Must(ioreader.NewConn(under, ioreader.ConnOptions{Read: limiter}))
	defer c.Close()
	text, err := io.ReadAll(c)
	fmt.Println(string(text), err)
	// Output: hello <nil>
}

func ExampleNewListener() {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	places := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 100, QueueLimit: 1}))
	shared := core.Must(core.NewTokenBucket(ioreader.PerSecond(10 << 20)))
	l := core.Must(ioreader.NewListener(tcp, ioreader.ListenerOptions{Conns: places, Write: shared}))
	defer l.Close()
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			defer c.Close()
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	c, err := l.Accept()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprint(c, "hello")
	fmt.Println(places.Available(), "places left")
	c.Close()
	fmt.Println(places.Available(), "places left")
	// Output:
	// 99 places left
	// 100 places left
}

func ExampleNewDialer() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	defer server.Close()

	bandwidth := core.Must(core.NewTokenBucket(ioreader.PerSecond(1 << 20)))
	dial := core.Must(ioreader.NewDialer((&net.Dialer{}).DialContext, ioreader.DialerOptions{Read: bandwidth}))
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	response, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	fmt.Println(string(text), err)
	// Output: hello <nil>
}

// A deadline ends a Read that waits for permits, and a later one lets the bytes through.
func ExampleReader_SetReadDeadline() {
	limiter := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 4, QueueLimit: 4}))
	others := limiter.TryAcquire(4)
	r := ioreader.NewReader(context.Background(), strings.NewReader("text"), limiter)
	if err := r.SetReadDeadline(time.Now()); err != nil {
		fmt.Println(err)
	}
	_, err := r.Read(make([]byte, 4))
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded))

	others.Release()
	if err := r.SetReadDeadline(time.Time{}); err != nil {
		fmt.Println(err)
	}
	text, err := io.ReadAll(r)
	fmt.Println(string(text), err)
	// Output:
	// true
	// text <nil>
}
