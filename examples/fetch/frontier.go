package main

import (
	"context"
	"iter"
	"sync"
)

// frontier holds the known addresses that are not fetched yet, each once.
type frontier struct {
	mu    sync.Mutex
	seen  map[string]bool
	most  int      // addresses in all
	next  []string // not yet taken
	open  int      // number of pages in next or being fetched
	moved chan struct{}
}

func newFrontier(most int, first string) *frontier {
	return &frontier{
		seen: map[string]bool{first: true}, most: most, next: []string{first}, open: 1,
		moved: make(chan struct{}, 1),
	}
}

// answered records that an address was fetched, and adds its links.
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

// all yields the addresses as they become known. It ends when no fetch that could add an address
// is left, or when ctx is done.
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
