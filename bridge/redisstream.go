package bridge

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// The fields of the wire RedisStream. Its field of the UUID has the name of MetaUUID.
const (
	fieldMetadata = "metadata" // a msgpack map of strings, or nothing
	fieldPayload  = "payload"
)

var metadataCodec = codec.Msgpack[map[string]string]()

// encodeRedisStream is the entry of a message.
func encodeRedisStream(m *message.Message, limit int) ([]string, error) {
	metadata := make(map[string]string, len(m.Metadata))
	for key, value := range m.Metadata {
		if key == MetaUUID {
			return nil, ErrReserved
		}
		if !perDelivery(key) {
			metadata[key] = value
		}
	}
	var packed codec.Message
	if len(metadata) > 0 {
		if err := metadataCodec.Encode(&packed, metadata); err != nil {
			return nil, err
		}
	}
	if size := len(m.UUID) + len(packed.Data) + len(m.Payload); size > limit {
		return nil, &stream.TooLargeError{What: "message, bytes", Size: size, Limit: limit}
	}
	return []string{MetaUUID, m.UUID, fieldMetadata, string(packed.Data), fieldPayload, string(m.Payload)}, nil
}

// decodeRedisStream is the message of an entry, whose fields come in any order; of a repeated one the last counts, as for the
// other backend.
func decodeRedisStream(fields []string) (*message.Message, error) {
	m := message.NewMessage("", nil)
	known := false
	for i := 0; i+1 < len(fields); i += 2 {
		switch value := fields[i+1]; fields[i] {
		case MetaUUID:
			m.UUID, known = value, true
		case fieldPayload:
			m.Payload = []byte(value)
		case fieldMetadata:
			if value == "" {
				continue
			}
			metadata, err := metadataCodec.Decode(&codec.Message{Data: []byte(value), Format: codec.FormatMsgpack})
			if err != nil {
				return nil, fmt.Errorf("%w: metadata: %w", ErrForeign, err)
			}
			if metadata != nil {
				m.Metadata = metadata
			}
		}
	}
	if !known {
		return nil, ErrForeign
	}
	return m, nil
}

// foreignOutlet publishes to a log on the wire RedisStream.
type foreignOutlet struct {
	log    *stream.Foreign
	limit  int
	maxLen int64
}

func newForeignOutlet(client *tier.Client, topic string, cfg *PublisherConfig) (outlet, error) {
	log, err := stream.NewForeign(client, topic)
	if err != nil {
		return nil, err
	}
	o := foreignOutlet{log: log, limit: cmp.Or(cfg.MaxMessage, stream.DefaultMaxMessage)}
	if cfg.MaxLen != nil {
		o.maxLen = cfg.MaxLen(topic)
	}
	return o, nil
}

func (o foreignOutlet) publish(ctx context.Context, messages []*message.Message) error {
	entries := make([][]string, len(messages))
	for i, m := range messages {
		var err error
		if entries[i], err = encodeRedisStream(m, o.limit); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	ids, err := o.log.Append(ctx, entries, o.maxLen)
	if err != nil {
		return partly(err, slices.ContainsFunc(ids, func(id codec.EntryID) bool { return !id.IsZero() }))
	}
	return nil
}
