package redislimit

import "time"

// task is an operation of which somebody may wait for the end.
type task struct {
	operation

	e    *Limiter
	done chan struct{} // receives when it has ended; nil if it was not sent

	// then, if it is not nil, is called with the engine's mutex held when the operation has ended. sent is when its call was sent.
	then func(sent time.Time, r result, err error)

	result result // once it has ended
	err    error  // why it was not performed
}

func (e *Limiter) task(o operation) *task {
	t := &task{operation: o, e: e}
	t.asker = t
	return t
}

func (*task) wanted(*operation, time.Time) bool { return true }

func (t *task) ended(_ *operation, c *call, r result) { t.finishLocked(c.sent, r, c.err) }

func (t *task) finishLocked(sent time.Time, r result, err error) {
	t.result, t.err = r, err
	if t.then != nil {
		t.then(sent, r, err)
	}
	if t.done != nil {
		t.e.woken = append(t.e.woken, t.done)
	}
	if t.frees && r.done > 0 {
		t.e.cache.refusal = refusal{}
		if !t.e.promisedLocked() || t.e.cache.tickets.from(sent) {
			t.e.renewLocked()
		}
	}
}

// do has the store perform an operation, and returns it when it has ended, within Timeout; nil in a zero value.
func (e *Limiter) do(o operation) *task { return e.perform(func() *task { return e.task(o) }) }

// perform is do for the operation that f returns; nil means that there is nothing to do. f is called with the mutex held.
func (e *Limiter) perform(f func() *task) *task {
	if e.options.Store == nil {
		return nil
	}
	t, leads := e.submitTask(f)
	if leads {
		e.client.lead()
	}
	if t != nil && t.done != nil {
		<-t.done
	}
	return t
}

// submitTask has the next call perform an operation, and reports whether the caller has to make that call.
func (e *Limiter) submitTask(f func() *task) (t *task, leads bool) {
	now := time.Now()
	e.mu.Lock()
	defer e.unlock()
	if t = f(); t == nil {
		return nil, false
	}
	t.expires = now.Add(e.options.Timeout)
	e.addLocked(t, now)
	return t, e.client.claimLocked()
}

// addLocked has the next call perform an operation, unless the breaker is open.
func (e *Limiter) addLocked(t *task, now time.Time) {
	if t.frees {
		e.cache.refusal = refusal{}
	}
	if err := e.client.blockedLocked(now); err != nil {
		t.finishLocked(now, result{}, err)
		return
	}
	t.done = make(chan struct{}, 1)
	e.client.addLocked(&t.operation)
	if t.frees && len(e.cache.tickets.out) > 0 { // send them in the same call, so that its waiters get what is returned
		e.renewLocked()
	}
}
