//go:build !linux

package partitions

import "time"

// threadTime is not known.
func threadTime() time.Duration { return 0 }
