package bridge

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/consumer"
)

// Sink is a consumer's handler that passes each message on to a topic of any Watermill publisher: with consumer.New, any
// source of this module pours into it, a group, a cursor in order, a partitioned stream. At least once: when a process dies
// between the publishing and the settling, the message is published again, with the same UUID, which is the branded id where
// the publisher of the message gave none. Entries that are no messages go to the dead letters.
func Sink(to message.Publisher, topic string) consumer.Handler {
	return func(ctx context.Context, d *consumer.Delivery) error {
		m, err := decode(&d.Record)
		if err != nil {
			return consumer.Permanent(err)
		}
		if m.UUID == "" {
			m.UUID = d.ID.String()
		}
		m.SetContext(ctx)
		if err := to.Publish(topic, m); err != nil {
			return fmt.Errorf("bridge: sink to %.64q: %w", topic, err)
		}
		return nil
	}
}
