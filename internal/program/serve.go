package program

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve runs the server for as long as meanwhile takes.
func Serve(ctx context.Context, s *http.Server, l net.Listener, meanwhile func(context.Context) error) error {
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		failed <- s.Serve(l)
		cancel()
	}()
	err := meanwhile(ctx)
	// The requests under way may end, for a moment.
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	if s.Shutdown(closing) != nil {
		err = errors.Join(err, s.Close())
	}
	if serving := <-failed; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}
