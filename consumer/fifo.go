package consumer

// fifo is a first-in, first-out list that reuses its memory.
type fifo[T any] struct {
	ring        []T // its length is a power of two
	head, count int
}

func (q *fifo[T]) push(v T) {
	if q.count == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.count)&(len(q.ring)-1)] = v
	q.count++
}

// unshift puts one before all others.
func (q *fifo[T]) unshift(v T) {
	if q.count == len(q.ring) {
		q.grow()
	}
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.ring[q.head] = v
	q.count++
}

// first is the oldest; there must be one.
func (q *fifo[T]) first() T { return q.ring[q.head] }

func (q *fifo[T]) pop() {
	var none T
	q.ring[q.head] = none // what it held can be collected
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
}

// at is the i-th oldest; there must be one.
func (q *fifo[T]) at(i int) T { return q.ring[(q.head+i)&(len(q.ring)-1)] }

// swap exchanges the i-th and the j-th oldest.
func (q *fifo[T]) swap(i, j int) {
	mask := len(q.ring) - 1
	i, j = (q.head+i)&mask, (q.head+j)&mask
	q.ring[i], q.ring[j] = q.ring[j], q.ring[i]
}

func (q *fifo[T]) grow() {
	ring := make([]T, max(4, 2*len(q.ring)))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}
