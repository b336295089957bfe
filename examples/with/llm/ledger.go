package main

import "sync"

// ledger counts the tokens that each account has used.
type ledger struct {
	mu   sync.Mutex
	used map[string]int
}

func (l *ledger) add(account string, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used == nil {
		l.used = make(map[string]int)
	}
	l.used[account] += tokens
}

// sums returns the tokens of all accounts together and of the account that used most.
func (l *ledger) sums() (all, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.used {
		all += n
		most = max(most, n)
	}
	return all, most
}
