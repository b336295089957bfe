package program

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve runs the server until meanwhile returns. If the server fails, Serve cancels the context of meanwhile
// and returns the server's error.
func Serve(ctx context.Context, s *http.Server, l net.Listener, meanwhile func(context.Context) error) error {
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		failed <- s.Serve(l)
		cancel()
	}()
	err := meanwhile(ctx)
	// Requests in flight have a moment to end.
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	if s.Shutdown(closing) != nil {
		err = errors.Join(err, s.Close())
	}
	if serving := <-failed; !errors.Is(serving, http.ErrServerClosed) {
		return serving // meanwhile has returned, too
	}
	return err
}
