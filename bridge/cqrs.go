package bridge

import (
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
)

// MsgpackMarshaler is a CommandEventMarshaler for Watermill's CQRS: values are msgpack, structs as maps by field name or
// `msgpack` tag, as those of codec.Msgpack. The zero value is ready to use.
type MsgpackMarshaler struct {
	// NewUUID makes the UUIDs of messages. Default watermill.NewUUID.
	NewUUID func() string
	// NameOf is the name of a command or an event. Default its type, with its package: "orders.Placed".
	NameOf func(v any) string
}

// Marshal is the message of a value. Its name is in the metadata, under MetaName.
func (m MsgpackMarshaler) Marshal(v any) (*message.Message, error) {
	var packed codec.Message
	if err := codec.Msgpack[any]().Encode(&packed, v); err != nil {
		return nil, err
	}
	id := watermill.NewUUID
	if m.NewUUID != nil {
		id = m.NewUUID
	}
	out := message.NewMessage(id(), packed.Data)
	out.Metadata[MetaName] = m.Name(v)
	out.Metadata[codec.HeaderContentType] = "application/msgpack"
	return out, nil
}

// Unmarshal fills what v points to. It does not panic, whatever the payload.
func (m MsgpackMarshaler) Unmarshal(msg *message.Message, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("bridge: decode msgpack: panic: %v", r)
		}
	}()
	if err := msgpack.Unmarshal(msg.Payload, v); err != nil {
		return fmt.Errorf("bridge: decode msgpack: %w", err)
	}
	return nil
}

// Name is that of a command or an event, or of what points to one.
func (m MsgpackMarshaler) Name(v any) string {
	if m.NameOf != nil {
		return m.NameOf(v)
	}
	return strings.TrimLeft(fmt.Sprintf("%T", v), "*")
}

// NameFromMessage is the name that the message was published with.
func (m MsgpackMarshaler) NameFromMessage(msg *message.Message) string { return msg.Metadata[MetaName] }
