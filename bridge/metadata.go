package bridge

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
)

// Keys of metadata. What a subscriber sets says where and when this delivery was made; a publisher leaves it out of what it
// sends, so that a message that is passed on says nothing of the place that it came from.
const (
	// MetaKey is the message's key, for order by key and for who reads the stream otherwise. A publisher takes it, a subscriber
	// sets it unless it is empty.
	MetaKey = "_echomq_key"
	// MetaID is the branded id of the message, 14 letters and digits; of a message without one the address of its entry.
	// Set by a subscriber.
	MetaID = "_echomq_id"
	// MetaAttempt counts the deliveries of the message, from 1 on. Set by a subscriber.
	MetaAttempt = "_echomq_attempt"
	// MetaTime is when the message was appended, by the server's clock, as RFC 3339 with milliseconds. Set by a subscriber.
	MetaTime = "_echomq_time"
	// MetaLag is how long it stood in the stream before this delivery, by the server's clock, as a Go duration, whole
	// milliseconds. Set by a subscriber.
	MetaLag = "_echomq_lag"

	// MetaName is what CQRS calls a message by. It is the message's Type in the stream, so that typed handlers see it, when
	// it has 1 to 255 bytes.
	MetaName = "name"
	// MetaUUID is the header that holds the message's UUID, unless that is empty.
	MetaUUID = "_watermill_message_uuid"
)

// perDelivery says whether a key of metadata is set by subscribers.
func perDelivery(key string) bool {
	return strings.HasPrefix(key, "_echomq_") && (key == MetaID || key == MetaAttempt || key == MetaTime || key == MetaLag)
}

// encode is the message of the stream: metadata are headers, in the order of their keys. It shares the payload.
func encode(m *message.Message) (codec.Message, error) {
	out := codec.Message{Data: m.Payload, Headers: make(codec.Headers, 0, len(m.Metadata)+1)}
	if m.UUID != "" {
		out.Headers = append(out.Headers, codec.Header{Key: MetaUUID, Value: m.UUID})
	}
	for key, value := range m.Metadata {
		switch {
		case key == MetaUUID:
			return codec.Message{}, ErrReserved
		case key == MetaKey:
			out.Key = value
		case key == MetaName && value != "" && len(value) <= codec.MaxType:
			out.Type = value
		case perDelivery(key):
		default:
			out.Headers = append(out.Headers, codec.Header{Key: key, Value: value})
		}
	}
	slices.SortFunc(out.Headers, func(a, b codec.Header) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// decode is the message as it was published. Its payload is a copy: what a delivery has is a part of the server's reply, which
// nobody may write to.
func decode(r *codec.Record) (*message.Message, error) {
	if r.Foreign() {
		return nil, ErrForeign
	}
	m := message.NewMessage("", bytes.Clone(r.Data))
	for _, h := range r.Headers {
		if h.Key == MetaUUID {
			m.UUID = h.Value
			continue
		}
		m.Metadata[h.Key] = h.Value
	}
	if r.Key != "" {
		m.Metadata[MetaKey] = r.Key
	}
	if r.Type != "" {
		m.Metadata[MetaName] = r.Type
	}
	return m, nil
}

// describe sets what a subscriber tells of a delivery. Now is the server's time.
func describe(m *message.Message, d *consumer.Delivery, now time.Time) {
	id := d.Addr.String()
	if !d.ID.IsZero() {
		id = d.ID.String()
	}
	if m.UUID == "" {
		m.UUID = id
	}
	at := d.Addr.Time()
	m.Metadata[MetaID] = id
	m.Metadata[MetaAttempt] = strconv.Itoa(d.Attempt)
	m.Metadata[MetaTime] = at.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	m.Metadata[MetaLag] = max(0, now.Sub(at)).Truncate(time.Millisecond).String()
}
