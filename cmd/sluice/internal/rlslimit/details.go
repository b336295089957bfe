package rlslimit

import (
	"sync"
	"sync/atomic"
	"time"
)

// details are the counts of a rule by names with values, as detailed_metric and value_to_metric want them. Clients choose the values.
type details struct {
	mu    sync.RWMutex
	named map[string]*detail
	swept time.Time
}

type detail struct {
	counts

	used atomic.Int64 // when it was, in seconds
}

// forgetAfter is how long a name is unused before another one may take its place.
const forgetAfter = time.Hour

// of returns the counts of a name, or nil if there are most names in use already. The counts of a name that is dropped are added to
// others.
func (d *details) of(name string, most int, others *counts) *counts {
	now := time.Now()
	d.mu.RLock()
	of := d.named[name]
	if of != nil {
		of.used.Store(now.Unix())
	}
	d.mu.RUnlock()
	if of != nil {
		return &of.counts
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.named) >= most && now.Sub(d.swept) > time.Minute {
		d.swept = now
		for name, of := range d.named {
			if now.Unix()-of.used.Load() > int64(forgetAfter.Seconds()) {
				others.add(&of.counts)
				delete(d.named, name)
			}
		}
	}
	of = d.named[name]
	switch {
	case of == nil && len(d.named) >= most:
		return nil
	case of == nil:
		of = new(detail)
		if d.named == nil {
			d.named = make(map[string]*detail)
		}
		d.named[name] = of
	}
	of.used.Store(now.Unix())
	return &of.counts
}

// load returns the counts by name.
func (d *details) load() map[string]Counts {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.named) == 0 {
		return nil
	}
	all := make(map[string]Counts, len(d.named))
	for name, of := range d.named {
		all[name] = of.load()
	}
	return all
}
