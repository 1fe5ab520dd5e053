package stream

import (
	"context"
	"strconv"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// takeOverPage is how many pending entries one look covers.
const takeOverPage = 1000

// TakeOver takes up to n entries over whose lease has ended, wherever they are held, this member included. One call
// looks at one page of the pending list, from where the last one ended; Done says that it came to the end.
func (m *Member) TakeOver(ctx context.Context, n int) (tier.Taken, error) {
	if n <= 0 {
		return tier.Taken{}, nil
	}
	args := append(m.identify(),
		millis(m.lease), m.lookFrom(), strconv.Itoa(takeOverPage), strconv.Itoa(min(n, maxBatch)))
	reply, err := m.run(ctx, takeoverScript, m.logAndOwners(), args...)
	if err != nil {
		return tier.Taken{}, err
	}
	parts, err := tier.Parts("takeover", reply, 4)
	if err != nil {
		return tier.Taken{}, err
	}
	if code, _ := parts[0].AsInt64(); code < 0 {
		return tier.Taken{}, tier.ErrFenced
	}
	next, err := parts[1].ToString()
	if err != nil {
		return tier.Taken{}, err
	}
	m.lookOn(next)
	held, err := heldOf(parts[2])
	if err != nil {
		return tier.Taken{}, err
	}
	entries, err := entriesOf(parts[3])
	if err != nil {
		return tier.Taken{}, err
	}
	deliveries := make(map[codec.EntryID]int, len(held))
	for _, h := range held {
		deliveries[h.Entry] = h.Deliveries
	}
	taken := tier.Taken{Done: next == ""}
	if taken.Leased, err = m.leased(ctx, entries, deliveries); err != nil {
		return tier.Taken{}, err
	}
	for i := range entries {
		delete(deliveries, entries[i].ID)
	}
	for lost := range deliveries {
		taken.Lost = append(taken.Lost, lost)
	}
	return taken, nil
}

func (m *Member) lookFrom() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cursor
}

func (m *Member) lookOn(next string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if next == "" {
		next = "-"
	}
	m.cursor = next
}
