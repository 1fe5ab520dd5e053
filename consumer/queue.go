package consumer

// queue is a first-in, first-out list that reuses its memory.
type queue[T any] struct {
	ring        []T // its length is a power of two
	head, count int
}

func (q *queue[T]) push(v T) {
	if q.count == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.count)&(len(q.ring)-1)] = v
	q.count++
}

// first is the oldest; there must be one.
func (q *queue[T]) first() T { return q.ring[q.head] }

func (q *queue[T]) pop() {
	var none T
	q.ring[q.head] = none // what it held can be collected
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
}

func (q *queue[T]) grow() {
	ring := make([]T, max(16, 2*len(q.ring)))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}
