package core

import "context"

// ended returns the error of a context whose Done is closed. One of somebody's own may not
// know it yet in its Err; that is a cancellation.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}
