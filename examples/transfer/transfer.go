package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// share is what one client got.
type share struct {
	kind  string
	bytes int64
	took  time.Duration
}

func (s share) rate() float64 { return float64(s.bytes) / s.took.Seconds() }

// kinds of clients by turns: the server sends to each in pieces of this size.
var kinds = []struct {
	name string
	size int
}{{"pieces of 256 KiB", 256 << 10}, {"pieces of 4 KiB", 4 << 10}}

// transfer serves the clients for the time.
func transfer(ctx context.Context, o options) ([]share, error) {
	l, err := listen(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.span)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.Close() }) // ends an Accept that hangs
	defer stop()
	defer l.Close()

	var all sync.WaitGroup
	shares, failed := make([]share, o.clients), make([]error, 2*o.clients)
	for i := range o.clients {
		// One after the other, so that the server knows whom it has accepted.
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		server, err := l.Accept()
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		kind := kinds[i%len(kinds)]
		all.Go(func() { failed[2*i] = serve(ctx, server, o.file, kind.size) })
		all.Go(func() {
			shares[i], failed[2*i+1] = receive(client)
			shares[i].kind = kind.name
		})
	}
	all.Wait()
	return shares, errors.Join(failed...)
}

// listen returns the limited listener.
func listen(o options) (net.Listener, error) {
	shared, err := core.NewTokenBucket(ioreader.PerSecond(o.rate))
	if err != nil {
		return nil, err
	}
	limits := ioreader.ListenerOptions{Write: shared}
	if o.each > 0 {
		limits.PerConn = func(net.Conn) (ioreader.ConnOptions, error) {
			own, err := core.NewTokenBucket(ioreader.PerSecond(o.each))
			return ioreader.ConnOptions{Write: own}, err
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return ioreader.NewListener(tcp, limits)
}

// serve sends until ctx is done, which closes the connection.
func serve(ctx context.Context, c net.Conn, file string, size int) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer c.Close()
	piece := make([]byte, size)
	for {
		var err error
		if file == "" {
			_, err = c.Write(piece)
		} else {
			err = sendFile(c, file)
		}
		switch {
		case ctx.Err() != nil:
			return nil // it was closed for that
		case err != nil:
			return err
		}
	}
}

// sendFile sends the whole file; the kernel moves its bytes.
func sendFile(c net.Conn, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(c, f)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s is empty", name)
	}
	return err
}

// receive counts what comes until the server closes the connection.
func receive(c net.Conn) (share, error) {
	defer c.Close()
	begun := time.Now()
	n, err := io.Copy(io.Discard, c)
	return share{bytes: n, took: time.Since(begun)}, err
}
