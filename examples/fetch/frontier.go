package main

import (
	"context"
	"iter"
	"sync"
)

// frontier holds the addresses that are known and not fetched, each once.
type frontier struct {
	mu    sync.Mutex
	seen  map[string]bool
	most  int      // addresses in all
	next  []string // not yet taken
	open  int      // taken or not, without an answer so far
	moved chan struct{}
}

func newFrontier(most int, first string) *frontier {
	return &frontier{
		seen: map[string]bool{first: true}, most: most, next: []string{first}, open: 1,
		moved: make(chan struct{}, 1),
	}
}

// answered notes that an address was fetched, and what it links to.
func (f *frontier) answered(links []string) {
	f.mu.Lock()
	for _, link := range links {
		if !f.seen[link] && len(f.seen) < f.most {
			f.seen[link] = true
			f.next = append(f.next, link)
			f.open++
		}
	}
	f.open--
	f.mu.Unlock()
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

// all yields the addresses as they become known, until there is none left that could lead
// to another, or ctx is done.
func (f *frontier) all(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			address, open := f.take()
			switch {
			case address != "":
				if !yield(address) {
					return
				}
				continue
			case open == 0:
				return
			}
			select {
			case <-f.moved:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (f *frontier) take() (address string, open int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.next) > 0 {
		address, f.next = f.next[0], f.next[1:]
	}
	return address, f.open
}
