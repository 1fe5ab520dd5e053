package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// sourceDrain is how long what is being appended may take when a run is to end.
const sourceDrain = 10 * time.Second

// Run subscribes, and pours until ctx ends, which is no error: what was taken is appended, for up to ten seconds, and nacked if that does not come about. An outage of the
// server is waited for, and so is room in it. Other processes may run the same source: what one has appended the others know.
//
// Errors: ErrRan; that of Subscribe; ErrSourceEnded when the subscriber closes the channel; ErrDisordered; of a message that
// can never be appended, unless there is Poison: ErrNoUUID, ErrReserved, *codec.LimitError, *stream.TooLargeError, *tier.NameError of its sequence, that of
// Position or Make; that of Poison; of the server what waiting does not mend.
func (s *Source) Run(ctx context.Context) error {
	if !s.begun.CompareAndSwap(false, true) {
		return ErrRan
	}
	background := context.WithoutCancel(ctx)
	subscribed, unsubscribe := context.WithCancel(background) // longer than ctx, for the acks of what is being appended
	defer unsubscribe()
	calls, cut := context.WithCancel(background)
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(sourceDrain, cut) })()

	in, err := s.from.Subscribe(subscribed, s.cfg.Topic)
	if err == nil {
		run := pouring{Source: s, ends: ctx, calls: calls, inlets: map[string]inlet{}}
		err = run.all(in)
		unsubscribe()
		for m := range in { // before it closes, a subscriber may wait for what becomes of one
			m.Nack()
		}
	}
	if err != nil {
		return fmt.Errorf("bridge: source of %.64q: %w", s.cfg.Topic, err)
	}
	return nil
}

// pouring is one run of a source.
type pouring struct {
	*Source
	ends   context.Context // the run's
	calls  context.Context // that of its calls, which may take a moment longer
	inlets map[string]inlet
}

// all takes what is there, and settles it, and takes again.
func (r *pouring) all(in <-chan *message.Message) error {
	for {
		select {
		case <-r.ends.Done():
			return nil
		case m, open := <-in:
			if !open {
				return ErrSourceEnded
			}
			if err := r.settle(gather(m, in)); err != nil {
				return err
			}
		}
	}
}

// A round has so many messages at most, of about so many bytes: they are in memory.
const (
	roundMessages = 500
	roundBytes    = 8 << 20
)

// gather is a message and those that come without waiting.
func gather(first *message.Message, in <-chan *message.Message) []*message.Message {
	all, bytes := []*message.Message{first}, len(first.Payload)
	for len(all) < roundMessages && bytes < roundBytes {
		select {
		case m, open := <-in:
			if !open {
				return all
			}
			all, bytes = append(all, m), bytes+len(m.Payload)
		default:
			return all
		}
	}
	return all
}

// settle appends messages, those of each sequence in their order, and acks them. It nacks what it does not know to be in the stream.
func (r *pouring) settle(ms []*message.Message) error {
	defer func() {
		for _, m := range ms {
			m.Nack() // which has no effect on what was acked
		}
	}()
	sequences := map[string][]poured{}
	for _, m := range ms {
		sequence, p, err := r.prepare(m)
		if err == nil {
			err = r.open(sequence)
		}
		if err == nil {
			sequences[sequence] = append(sequences[sequence], p)
		} else if err := r.poison(m, err); err != nil {
			return err
		}
	}
	var tasks sync.WaitGroup
	failures := make(chan error, len(sequences))
	for sequence, some := range sequences {
		to := r.inlets[sequence]
		tasks.Go(func() { failures <- r.through(to, some) })
	}
	tasks.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// poured is a message on its way.
type poured struct {
	from   *message.Message
	to     codec.Message
	number uint64 // in its sequence
}

// prepare finds the sequence of a message, and what is appended of it. An error is of the message.
func (s *Source) prepare(m *message.Message) (sequence string, p poured, err error) {
	p.from = m
	if p.to, err = encode(m); err == nil && s.cfg.Make != nil {
		p.to, err = s.cfg.Make(p.to)
	}
	switch {
	case err != nil:
	case s.cfg.Position != nil:
		if sequence, p.number, err = s.cfg.Position(m); err == nil && (p.number == 0 || p.number >= 1<<53) {
			err = fmt.Errorf("its number is %d, want 1 to 2^53-1", p.number)
		}
	case m.UUID == "":
		err = ErrNoUUID
	}
	return sequence, p, err
}

// open makes the inlet of a sequence, if there is none.
func (r *pouring) open(sequence string) error {
	if r.inlets[sequence] != nil {
		return nil
	}
	w, err := r.newWriter(sequence)
	switch {
	case err != nil:
		return err
	case r.cfg.Position != nil:
		r.inlets[sequence] = &numbered{writer: w}
	default:
		r.inlets[sequence] = &windowed{writer: w, window: r.cfg.Window}
	}
	return nil
}

// through appends messages and acks them, unless the run ends and the server is away, or it takes too long then.
func (r *pouring) through(to inlet, ms []poured) error {
	for failures := 0; len(ms) > 0; {
		done, err := to.append(r.calls, ms)
		for _, p := range ms[:done] {
			p.from.Ack()
		}
		ms = ms[done:]
		switch {
		case err == nil:
			failures = 0
		case refused(err):
			if err := r.poison(ms[0].from, err); err != nil {
				return err
			}
			ms = ms[1:]
		case r.calls.Err() != nil:
			return nil
		case !waits(err):
			return err
		default:
			if failures++; failures == 1 {
				r.log.Warn("a source waits for the server", slog.String("topic", r.cfg.Topic), slog.String("stream", r.cfg.Address), slog.Any("err", err))
			}
			if !tier.Pause(r.ends, tier.CallDelay(failures)) {
				return nil
			}
		}
	}
	return nil
}

// poison gives a message away that can never be appended, and acks it.
func (r *pouring) poison(m *message.Message, why error) error {
	if r.cfg.Poison == nil {
		return fmt.Errorf("message %.64q: %w; it is left to the source: a Poison in the config would take it", m.UUID, why)
	}
	if err := r.cfg.Poison(r.calls, m, why); err != nil {
		return fmt.Errorf("poison, message %.64q (%w): %w", m.UUID, why, err)
	}
	m.Ack()
	return nil
}

// refused says whether an error is of the message: it was not sent, and never will be.
func refused(err error) bool {
	return errors.As(err, new(*stream.TooLargeError)) || errors.As(err, new(*codec.LimitError))
}

// waits says whether waiting mends what went wrong.
func waits(err error) bool {
	class := tier.Classify(err)
	return class != nil && class.Reaction != tier.Surface
}
