package stream

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
)

// takeOverPage is how many pending entries one look covers.
const takeOverPage = 1000

// TakeOver takes up to n entries over whose lease has ended, wherever they are held, this member included; among them at
// most the given number of suspects, which two consumers or more have let go of: one of them may be what ends those who
// handle it, so they are best handled one at a time. One call looks at one page of the pending list, from where the last
// one ended; Done says that it came to the end.
func (m *Member) TakeOver(ctx context.Context, n, suspects int) (tier.Taken, error) {
	if n <= 0 {
		return tier.Taken{Next: -1}, nil
	}
	args := append(m.identify(),
		millis(m.lease), m.lookFrom(), strconv.Itoa(takeOverPage), strconv.Itoa(min(n, MaxBatch)), strconv.Itoa(suspects))
	reply, err := m.run(ctx, takeoverScript, m.fetchKeys(), args...)
	if err != nil {
		return tier.Taken{}, err
	}
	parts, err := tier.Parts("takeover", reply, 8)
	if err != nil {
		return tier.Taken{}, err
	}
	if taken, over, err := answered(parts[0]); over {
		return taken, err
	}
	next, err := parts[1].ToString()
	if err != nil {
		return tier.Taken{}, err
	}
	m.lookOn(next)
	left, err := parts[7].AsInt64()
	if err != nil {
		return tier.Taken{}, err
	}
	taken, err := takenOf(ctx, parts[2], parts[3], parts[4], parts[5], m.leased)
	taken.Done, taken.Next, taken.Suspects = next == "", wait(parts[6]), int(left)
	return taken, err
}

// answered tells whether the first part of a reply says all there is to say: that the member is fenced, or the group paused.
func answered(code rueidis.RedisMessage) (t tier.Taken, over bool, err error) {
	switch n, err := code.AsInt64(); {
	case err != nil:
		return t, true, err
	case n < 0:
		return t, true, tier.ErrFenced
	case n == 0:
		return tier.Taken{Paused: true, Next: -1}, true, nil
	}
	return t, false, nil
}

// fetchKeys are those that taking entries over or up again needs.
func (m *Member) fetchKeys() []string {
	return append(m.logOwnersRetryOpen(), m.group.place.addr.GroupKey(m.group.cfg.Name))
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
