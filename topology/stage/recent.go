package stage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
)

// The stages of this file go by when messages were appended, which never runs back in a log: what they decide is the same
// whenever they do.

const defaultKeys = 100_000

// cellOf is the cell of a key. Of a long one it has the digest, so that so many cells have so many bytes.
func cellOf(key string) string {
	if len(key) <= 256 {
		return "k" + key
	}
	sum := sha256.Sum256([]byte(key))
	return "h" + hex.EncodeToString(sum[:])
}

// deduping drops what was seen.
type deduping struct {
	memory[struct{}]
	key    *program
	within int64
	most   int
	to     string
}

func (s *deduping) decide(e *env, d *consumer.Delivery) error {
	key, err := s.key.textOr(e, "", anyLength)
	if err != nil {
		return err
	}
	now := int64(d.Addr.Ms)
	s.tick(now)
	for c := s.first(s.clock.Max); c != nil; c = s.first(s.clock.Max) {
		s.remove(c)
	}
	id := cellOf(key)
	if s.cells[id] != nil {
		return nil
	}
	if len(s.cells) >= s.most {
		s.remove(s.first(math.MaxInt64))
	}
	s.add(id, now+s.within, struct{}{})
	e.emit(s.to, d.Message)
	return nil
}

func (s *deduping) flush(*env, *int64) error { return nil }

// throttling passes so many in a time, which begins with the first.
type throttling struct {
	memory[int] // how many have passed
	key         *program
	count, most int
	per         int64
	to, over    string
}

func (s *throttling) decide(e *env, d *consumer.Delivery) error {
	key, err := s.key.textOr(e, "", anyLength)
	if err != nil {
		return err
	}
	now := int64(d.Addr.Ms)
	s.tick(now)
	for c := s.first(s.clock.Max); c != nil; c = s.first(s.clock.Max) {
		s.remove(c)
	}
	c := s.cells[cellOf(key)]
	switch {
	case c == nil:
		if len(s.cells) >= s.most {
			s.remove(s.first(math.MaxInt64))
		}
		s.add(cellOf(key), now+s.per, 1)
	case c.value < s.count:
		c.value++
		s.changed(c)
	default:
		if s.over != "" {
			e.emit(s.over, d.Message)
		}
		return nil
	}
	e.emit(s.to, d.Message)
	return nil
}

func (s *throttling) flush(*env, *int64) error { return nil }

// gathered is a batch that is open.
type gathered struct {
	Key   string            `json:"key"`
	Items []json.RawMessage `json:"items"`
	Bytes int               `json:"bytes"`
}

// maxGathered closes a batch before it has more bytes than a message may.
const maxGathered = 512 << 10

// batching makes one message of many.
type batching struct {
	memory[gathered]
	key        *program
	size, most int
	within     int64
	name, to   string
}

func (s *batching) decide(e *env, d *consumer.Delivery) error {
	key, err := s.key.textOr(e, d.Key, codec.MaxKey)
	if err != nil {
		return err
	}
	if err := e.decode(); err != nil {
		return consumer.Permanent(err)
	}
	item := json.RawMessage(bytes.Clone(d.Data))
	if _, isText := e.data().(string); d.Format != codec.FormatBytes || isText || len(item) == 0 {
		if item, err = json.Marshal(e.data()); err != nil {
			return consumer.Permanent(err)
		}
	}
	now := int64(d.Addr.Ms)
	s.tick(now)
	if err := s.close(e, s.clock.Max); err != nil {
		return err
	}
	c := s.cells["k"+key]
	if c != nil && c.value.Bytes+len(item) > maxGathered {
		if err := s.hand(e, c); err != nil {
			return err
		}
		c = nil
	}
	if c == nil {
		if len(s.cells) >= s.most {
			if err := s.hand(e, s.first(math.MaxInt64)); err != nil {
				return err
			}
		}
		end := int64(math.MaxInt64)
		if s.within > 0 {
			end = now + s.within
		}
		c = s.add("k"+key, end, gathered{Key: strings.Clone(key)})
	}
	c.value.Items, c.value.Bytes = append(c.value.Items, item), c.value.Bytes+len(item)
	s.changed(c)
	if len(c.value.Items) >= s.size {
		return s.hand(e, c)
	}
	return nil
}

// hand makes the message of a batch.
func (s *batching) hand(e *env, c *cell[gathered]) error {
	data, err := json.Marshal(c.value.Items)
	if err != nil {
		return err
	}
	e.emit(s.to, codec.Message{Type: s.name, Key: c.value.Key, Headers: contentJSON, Data: data})
	s.remove(c)
	return nil
}

func (s *batching) close(e *env, upTo int64) error {
	for c := s.first(upTo); c != nil; c = s.first(upTo) {
		if err := s.hand(e, c); err != nil {
			return err
		}
	}
	return nil
}

func (s *batching) flush(e *env, until *int64) error {
	if until != nil {
		return nil // it is of another time
	}
	return s.close(e, math.MaxInt64)
}

func millis(d Duration) int64 { return time.Duration(d).Milliseconds() }
