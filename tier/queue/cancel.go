package queue

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
)

// Listen tells of jobs that the member was given when they are cancelled, until ctx ends (nil) or the connection does: the next
// Renew of such a job brings why. What is cancelled while nobody listens is not told: so all is renewed when missed is called, at
// the start. Neither function may block. The error is tier.ErrPermission when the user may not listen.
func (m *Member) Listen(ctx context.Context, missed func(), cancelled func(entry codec.EntryID)) error {
	return m.workers.client.Listen(ctx, m.workers.queue.CancelChannel(), missed, func(message string) {
		member, job, _ := strings.Cut(message, " ")
		if id, err := codec.Parse(job); err == nil && member == m.name {
			cancelled(id.HostEntry())
		}
	})
}

// Cancelled are the jobs of which Renew has learnt since the last call that they are cancelled, and why.
func (m *Member) Cancelled() map[codec.EntryID]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.told
	m.told = nil
	return told
}

// learnCancelled reads {id, reason, ...}.
func (m *Member) learnCancelled(reply rueidis.RedisMessage) error {
	flat, err := reply.AsStrSlice()
	if err != nil || len(flat) == 0 {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told == nil {
		m.told = map[codec.EntryID]string{}
	}
	for i := 0; i+1 < len(flat); i += 2 {
		if id, err := codec.Parse(flat[i]); err == nil {
			m.told[id.HostEntry()] = flat[i+1]
		}
	}
	return nil
}
