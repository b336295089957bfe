package backoff

// Len returns how many keys take memory.
func (k *Keys[V]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.keys)
}
