package fair

// Remembered returns how many flows the queue knows.
func (q *Queue[V]) Remembered() (n int) {
	for _, l := range q.levels {
		n += l.waiting.Len() + l.idle.Len()
	}
	return n
}
