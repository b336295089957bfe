package channel

// maxLate bounds the items that wait for OnDrop while other calls run it.
const maxLate = 1024

// drop tells OnDrop of items that no longer hold anything.
func (c *LimitedChannel[T]) drop(items ...T) {
	c.mu.Lock()
	for i := range items {
		c.dropLaterLocked(&items[i])
	}
	c.unlock()
}

// dropLaterLocked makes unlock tell OnDrop of an item.
func (c *LimitedChannel[T]) dropLaterLocked(v *T) {
	if c.onDrop != nil {
		c.late.PushFrom(v)
		c.work.dropped++
	}
}

// report tells OnDrop of the items in late, to which the caller has added so many. If a call is doing that already, it
// also reports those of the caller, which may be a call of OnDrop: its calls are not inside each other, however
// many items each of them drops. Senders must not drop faster than one call reports, however, so if more than maxLate items
// wait, the caller helps, and may report inside an OnDrop that has itself dropped that many.
func (c *LimitedChannel[T]) report(own int) {
	c.mu.Lock()
	reports := c.reporters == 0 || c.late.Len() > maxLate
	if reports {
		c.reporters++
	}
	c.mu.Unlock()
	if reports {
		c.reportAll(own)
	}
}

// reportAll is the rest of report. If OnDrop panics, the other items are reported all the same.
func (c *LimitedChannel[T]) reportAll(own int) {
	var v T
	panicked := false
	defer func() {
		if panicked {
			c.reportAll(own)
		}
	}()
	for c.nextLate(&v, own) {
		own--
		panicked = true
		c.onDrop(v)
		panicked = false
	}
}

// nextLate takes the next item to report. It returns false, and the caller's report has ended, if there are no more, or
// if the caller has reported as many as it has dropped and others report too.
func (c *LimitedChannel[T]) nextLate(v *T, own int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late.Len() == 0 || own <= 0 && c.reporters > 1 {
		c.reporters--
		return false
	}
	c.late.PopTo(v)
	return true
}
