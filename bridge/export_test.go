package bridge

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
)

// NewListener is the member of a fan-out that these come to.
func NewListener(records chan codec.Record) consumer.Member {
	l, _ := (&fanout{records: records}).Join(context.Background(), "l")
	return l
}

// Handling is a subscription without its consumer: its handler, and the channel that it gives messages to, until ending is closed.
func (s *Subscriber) Handling(topic string, ending <-chan struct{}) (handle consumer.Handler, out <-chan *message.Message, err error) {
	sub, err := s.subscription(topic)
	if err != nil {
		return nil, nil, err
	}
	sub.ending = ending
	return sub.handle, sub.out, nil
}
