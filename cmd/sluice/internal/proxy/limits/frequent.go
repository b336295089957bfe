package limits

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
)

const (
	mostFrequent = 256 // keys that are counted at a time
	shownKeys    = 10
	shownLetters = 4 // of a value that may be a secret, and half of it at most
)

// frequent counts Rejections by key: those of the keys that are rejected most. Another key takes the place of the one with
// the fewest, and its count with it (the algorithm "space-saving"), so that a count may be too high, and never too low.
type frequent struct {
	mu     sync.Mutex
	counts map[string]*Rejections
}

// Rejections are how often a key was rejected.
type Rejections struct {
	Key      []string `json:"key"`
	Rejected uint64   `json:"rejected"`
}

func (f *frequent) add(key config.Key, values []config.Value) {
	name := config.JoinKey(values)
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.counts[name]; c != nil {
		c.Rejected++
		return
	}
	c := &Rejections{Key: shown(key, values), Rejected: 1}
	if len(f.counts) >= mostFrequent {
		least, fewest := "", uint64(0)
		for n, other := range f.counts {
			if least == "" || other.Rejected < fewest {
				least, fewest = n, other.Rejected
			}
		}
		delete(f.counts, least)
		c.Rejected += fewest
	}
	if f.counts == nil {
		f.counts = make(map[string]*Rejections)
	}
	f.counts[name] = c
}

// most returns the keys that were rejected most, those first.
func (f *frequent) most() []Rejections {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Rejections, 0, len(f.counts))
	for _, c := range f.counts {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Rejections) int {
		return cmp.Or(cmp.Compare(b.Rejected, a.Rejected), slices.Compare(a.Key, b.Key))
	})
	return all[:min(len(all), shownKeys)]
}

// shown returns the values of a key for people: only the first letters of values that may be secrets.
func shown(key config.Key, values []config.Value) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = strings.Clone(v.Text)
		if letters := []rune(v.Text); key[i].IsChosen() && len(letters) > 0 {
			texts[i] = string(letters[:min(shownLetters, len(letters)/2)]) + "\u2026"
		}
	}
	return texts
}
