//go:build !linux

package throttle

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// move moves nothing; a copy moves the bytes.
func (*sink) move(io.Reader) int64 { return 0 }

// source returns f.
func source(f *os.File) io.Reader { return f }

// enlarge does nothing.
func enlarge(*os.File) {}

// pause sleeps for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) { cli.Sleep(ctx, d) }
