package hold

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/ring"
)

// Ledger keeps what the entries of a queue hold, in the order of the entries, which are items of a channel or
// bytes of a pipe. The zero Ledger is empty, and takes any holds. It is not safe for concurrent use, and
// calls no user code.
type Ledger struct {
	fixed bool // no holds are stored, because each entry holds the same number of plain permits
	each  int  // the number of permits that each entry holds, if fixed

	holds      ring.Ring[held]
	start, end uint64 // the entries in the queue are those from start to end, counted since the first
}

// held is what the entries before the position end, and after those of the previous held, hold together.
type held struct {
	Hold

	end uint64
}

// Fixed returns a Ledger of entries that hold n plain permits each; n may be 0. It needs no memory for an entry.
func Fixed(n int) Ledger { return Ledger{fixed: true, each: n} }

// Push adds n entries, at least 1, which hold h together. A Ledger of [Fixed] ignores h.
func (l *Ledger) Push(n int, h Hold) {
	l.end += uint64(n)
	if !l.fixed {
		l.holds.Push(held{h, l.end})
	}
}

// PushPlain is Push of one entry that holds plain permits, or nothing if permits is 0. PushPlain and PopPlain
// are inlined and copy no Hold: with Push and PopOne an item takes a fifth longer through a channel (BenchmarkTry of
// channel).
func (l *Ledger) PushPlain(permits int) {
	if l.fixed {
		l.end++
	} else {
		l.pushPlainSlow(permits)
	}
}

func (l *Ledger) pushPlainSlow(permits int) { l.Push(1, Hold{Permits: permits}) }

// PopPlain is PopOne of an entry without a lease. It returns the number of plain permits.
func (l *Ledger) PopPlain() int {
	if l.fixed {
		l.start++
		return l.each
	}
	return l.popPlainSlow()
}

func (l *Ledger) popPlainSlow() int { return l.PopOne().Permits }

// PopOne removes the oldest entry, which was pushed alone, and returns what it holds.
func (l *Ledger) PopOne() Hold {
	l.start++
	if l.fixed {
		return Hold{Permits: l.each}
	}
	return l.holds.Pop().Hold
}

// PopBack removes the newest entry, which was pushed alone, and returns what it holds.
func (l *Ledger) PopBack() Hold {
	l.end--
	if l.fixed {
		return Hold{Permits: l.each}
	}
	var h held
	l.holds.PopBackTo(&h)
	return h.Hold
}

// Pop removes the n oldest entries. It returns the number of plain permits to return, and appends to leases the leases
// to release: of entries that were pushed together, when the last of them is removed.
func (l *Ledger) Pop(n int, leases []core.Lease) (permits int, _ []core.Lease) {
	l.start += uint64(n)
	if l.fixed {
		return n * l.each, leases
	}
	for l.holds.Len() > 0 && l.holds.At(0).end <= l.start {
		h := l.holds.Pop()
		permits += h.Permits
		if h.Lease.Acquired() {
			leases = append(leases, h.Lease)
		}
	}
	return permits, leases
}
