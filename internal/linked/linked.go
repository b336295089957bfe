// Package linked has the old names of what is in package wait, until its last users have moved.
package linked

import "github.com/sluice-go/sluice/internal/wait"

// Source is [wait.Source].
type Source = wait.Source

// Call is [wait.Call].
type Call = wait.Call
