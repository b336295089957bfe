package shared

import "github.com/sluice-go/sluice/redislimit"

// Limits returns the store for limiters that others make.
func (s *Store) Limits() redislimit.Store { return s.store }
