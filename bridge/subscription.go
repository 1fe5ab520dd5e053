package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// subscription is one consumer, whose handler passes messages to a channel.
type subscription struct {
	topic    string
	wire     Wire
	log      *slog.Logger
	group    *stream.Group // or
	fanout   *fanout
	consumer *consumer.Consumer
	clock    clock

	out    chan *message.Message
	ending <-chan struct{} // closed when nothing more is given out
}

func (s *Subscriber) newSubscription(address, topic string) (*subscription, error) {
	sub := &subscription{topic: topic, wire: s.cfg.Wire, log: s.cfg.Consumer.Logger, out: make(chan *message.Message)}
	if sub.log == nil {
		sub.log = slog.New(slog.DiscardHandler)
	}
	addr, err := tier.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	sub.clock = clock{client: s.client, key: addr.LogKey()}
	source := consumer.Source(nil)
	if s.cfg.Group == "" {
		if sub.fanout, err = newFanout(s.client, addr, s.cfg.Start, sub.log); err != nil {
			return nil, err
		}
		source = sub.fanout
	} else {
		sub.group, err = stream.NewGroup(s.client, stream.GroupConfig{Address: address, Name: s.cfg.Group, Start: s.cfg.Start, Lease: s.cfg.Lease})
		if err != nil {
			return nil, err
		}
		source = consumer.Group(sub.group)
	}
	sub.consumer, err = consumer.New(source, sub.handle, s.cfg.runtime())
	return sub, err
}

// begin makes the place known from which on messages come.
func (s *subscription) begin(ctx context.Context) error {
	if err := s.clock.set(ctx); err != nil {
		return err
	}
	if s.fanout != nil {
		return s.fanout.begin(ctx)
	}
	return s.group.Create(ctx)
}

// run gives out messages until ctx ends.
func (s *subscription) run(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	s.ending = ctx.Done()
	var reading sync.WaitGroup
	if s.fanout != nil {
		reading.Go(func() { s.fanout.follow(ctx) })
	}
	if err := s.consumer.Run(ctx); err != nil {
		s.log.Error("subscription ended", slog.String("topic", s.topic), slog.Any("err", err))
	}
	end()
	reading.Wait()
	close(s.out)
}

// handle gives one message out and waits for what becomes of it.
func (s *subscription) handle(ctx context.Context, d *consumer.Delivery) error {
	m, err := s.wire.decode(&d.Record)
	if err != nil {
		return consumer.Permanent(err)
	}
	now := s.clock.now()
	if isDelayed(m.Metadata) {
		now = s.clock.fresh(ctx)
		if pause := delay(m.Metadata, d.Addr.Time(), now); pause > 0 {
			return consumer.Snooze(pause)
		}
	}
	describe(m, d, now)
	m.SetContext(context.WithValue(ctx, delivered{}, m.Metadata[MetaID]))
	if !s.give(ctx, m) {
		return consumer.Snooze(0) // it was not begun: others have it at once, and this attempt does not count
	}
	select {
	case <-m.Acked():
		return nil
	case <-m.Nacked():
		return fmt.Errorf("%w (attempt %d)", errNacked, d.Attempt)
	case <-ctx.Done():
		select {
		case <-m.Acked(): // which counts, where both are so
			return nil
		default:
			return context.Cause(ctx)
		}
	}
}

// give passes a message on; false: nobody takes it any more.
func (s *subscription) give(ctx context.Context, m *message.Message) bool {
	select {
	case <-s.ending: // which counts, where somebody waits for a message as well
		return false
	default:
	}
	select {
	case s.out <- m:
		return true
	case <-s.ending:
		return false
	case <-ctx.Done(): // what is returned then has no effect
		return false
	}
}
