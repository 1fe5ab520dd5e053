package bridge

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/consumer"
)

// Handling is a subscription without its consumer: its handler, and the channel that it gives messages to, until ending is closed.
func (s *Subscriber) Handling(topic string, ending <-chan struct{}) (handle consumer.Handler, out <-chan *message.Message, err error) {
	sub, err := s.subscription(topic)
	if err != nil {
		return nil, nil, err
	}
	sub.ending = ending
	return sub.handle, sub.out, nil
}
