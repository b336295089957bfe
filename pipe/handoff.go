package pipe

// handoff is how bytes go from the slice of a Write to the slice of a Read at once, when
// the ring is empty. The call that comes second copies: a Write into the buffer of a Read
// that waits, a Read out of the bytes of a Write that waits for room. It does so without the
// mutex; the call that waits stays until that is done, which does not take long, as a copy
// never waits for a limiter.
//
// The pipe's mutex guards it.
type handoff struct {
	dst     []byte // of a Read that waits
	got     int    // bytes that it has been given
	filling bool   // a Write is at dst
	pausing bool   // it is asking its limiter: what was given may be handed over

	src    []byte // of a Write that waits
	taking bool   // a Read is at src
}

// handOverMin is the fewest bytes to hand over at once. Fewer go through the ring, where
// the reader, once it runs, finds those of the next Writes too.
const handOverMin = 8 << 10

// claim returns the rest of the buffer of the Read that waits, for a Write to fill; nil if
// none waits, or bytes are in the ring before. A claim goes on until it is handed over.
// The Write's turn is held.
func (p *pipe) claim() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claimLocked()
}

func (p *pipe) claimLocked() []byte {
	p.pausing = false
	if p.dst == nil || p.ring.end != p.ring.read.Load() {
		return nil
	}
	p.filling = true
	return p.dst[p.got:]
}

// claimOrOffer is claim, or else leaves b for the next Read to take from. Both in one,
// so that no Read begins to wait in between.
func (p *pipe) claimOrOffer(b []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst := p.claimLocked()
	if dst == nil {
		p.src = b
	}
	return dst
}

// filled counts n bytes more that the claimed buffer has got, and hands it over if it is
// full.
func (p *pipe) filled(n int) {
	p.mu.Lock()
	p.got += n
	full := p.got == len(p.dst)
	p.mu.Unlock()
	if full {
		p.handOver()
	}
}

// handOver ends a claim, if there is one.
func (p *pipe) handOver() {
	p.mu.Lock()
	over := p.handOverLocked()
	p.mu.Unlock()
	if over {
		p.rd.rouse()
	}
}

func (p *pipe) handOverLocked() bool {
	over := p.filling
	if over {
		p.filling, p.pausing, p.dst = false, false, nil
	}
	return over
}

// pause says that the Write is about to ask its limiter, and that flush may end its claim.
func (p *pipe) pause() {
	p.mu.Lock()
	p.pausing = p.filling
	p.mu.Unlock()
}

// flush ends the claim of a Write that has to wait for its limiter.
func (p *pipe) flush() {
	p.mu.Lock()
	over := p.pausing && p.handOverLocked()
	p.mu.Unlock()
	if over {
		p.rd.rouse()
	}
}

// takeOffered copies from a Write that waits, if one does and the ring is empty. If none
// does, dst is left for a Write to fill; nil: it is not.
func (p *pipe) takeOffered(b, dst []byte) int {
	p.mu.Lock()
	if p.src == nil || p.ring.written.Load() != p.ring.start {
		p.dst, p.got = dst, 0
		p.mu.Unlock()
		return 0
	}
	p.taking = true
	src := p.src
	p.mu.Unlock()

	n := copy(b, src)

	p.mu.Lock()
	p.src = src[n:]
	p.taking = false
	// What is left goes into the ring as soon as it fits: then the Write can return.
	resume := len(p.src) <= bufferSize
	p.mu.Unlock()
	if resume {
		p.wr.rouse()
	}
	return n
}

// withdrawRead ends a Read's wait and returns how many bytes it was given.
func (p *pipe) withdrawRead() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.filling {
		if p.pausing {
			p.handOverLocked()
			break
		}
		p.mu.Unlock()
		<-p.rd.wake
		p.mu.Lock()
	}
	n := p.got
	p.dst, p.got = nil, 0
	return n
}

// withdrawWrite ends a Write's offer and returns how many of its n bytes are left.
func (p *pipe) withdrawWrite() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.taking {
		p.mu.Unlock()
		<-p.wr.wake
		p.mu.Lock()
	}
	n := len(p.src)
	p.src = nil
	return n
}
