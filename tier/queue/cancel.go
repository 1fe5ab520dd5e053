package queue

import (
	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
)

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
