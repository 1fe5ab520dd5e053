package bridge

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// SourceConfig says what a Source pours into which stream, and by what it knows what is there already: Position or Window.
type SourceConfig struct {
	// Topic is subscribed to.
	Topic string
	// Address of the stream, "scope/stream".
	Address string
	// Position is where a message stands in its source: in which sequence (a partition, or ""), and at which number there, from
	// 1 on and below 2^53. Then each message is appended exactly once, after any pause. It is for sources that give the messages of a sequence in
	// the order of their numbers, and after a crash begin again at or before the first one that was not acked, as Kafka, a table with an offset, or
	// a fan-out do: what is below the last number that was appended counts as appended. A queue that gives what one
	// process left behind after what another has acked, as consumer groups of Redis Streams and AMQP do, has no such numbers, whatever it
	// prints on its messages: use Window.
	Position func(m *message.Message) (sequence string, number uint64, err error)
	// Name of the source, for Position: what another process has appended under it counts as appended. One for each topic and stream;
	// it has no dot in it.
	Name string
	// Window is how long a UUID counts as appended, by the server's clock, from stream.MinWindow to stream.MaxWindow, where there is no Position. It
	// has to be longer than the longest time in which the source gives a message again. A UUID costs the server about 200 bytes for as long.
	Window time.Duration
	// Make makes the message that is appended of the one that was decoded; it is called by one goroutine at a time. An error is
	// of the message, which can never be appended. Default: it stays as it is.
	Make func(codec.Message) (codec.Message, error)
	// Poison takes messages that can never be appended: too large, with an empty UUID or no position, or that Make refuses. They are acked when it
	// returns nil. Default: Run ends with the error, and the source keeps the message.
	Poison func(ctx context.Context, m *message.Message, why error) error
	// MaxMessage is the largest encoded message in bytes. Default 1 MiB, at most 8 MiB.
	MaxMessage int
	// Logger is told of outages. Nil: nobody is.
	Logger *slog.Logger
	// Registerer takes the metrics of the writers. Nil: none.
	Registerer prometheus.Registerer
}

func (c *SourceConfig) validate() error {
	switch byPosition := c.Position != nil; {
	case c.Topic == "":
		return fmt.Errorf("%w: a source needs a Topic", ErrConfig)
	case byPosition == (c.Window != 0):
		return fmt.Errorf("%w: a source knows its messages by Position, or by their UUIDs for a Window: give one of the two", ErrConfig)
	case byPosition && tier.CheckName("source", c.Name) != nil:
		return fmt.Errorf("%w: Name: %w", ErrConfig, tier.CheckName("source", c.Name))
	case byPosition && strings.Contains(c.Name, "."):
		return fmt.Errorf("%w: Name %q has a dot, behind which the sequence would stand", ErrConfig, c.Name)
	case !byPosition && c.Name != "":
		return fmt.Errorf("%w: Name %q is for Position: UUIDs are known for the stream, whoever appended them", ErrConfig, c.Name)
	case !byPosition && (c.Window < stream.MinWindow || c.Window > stream.MaxWindow):
		return fmt.Errorf("%w: Window is %s, want %s to %s", ErrConfig, c.Window, stream.MinWindow, stream.MaxWindow)
	}
	return nil
}

// Source pours a topic of any Watermill subscriber into a stream. A message is acked when it stands in the stream, and what is given again
// is acked and not appended again: by its position, or by its UUID.
type Source struct {
	client *tier.Client
	from   message.Subscriber
	cfg    SourceConfig
	log    *slog.Logger
	begun  atomic.Bool
}

// NewSource checks the configuration. It sends nothing. The client and the subscriber stay the caller's, who closes them.
// ErrConfig.
func NewSource(client *tier.Client, from message.Subscriber, cfg SourceConfig) (*Source, error) {
	if client == nil || from == nil {
		return nil, fmt.Errorf("%w: a source needs a client and a subscriber", ErrConfig)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Source{client: client, from: from, cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	if _, err := s.newWriter(""); err != nil { // which looks at Address and MaxMessage
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s, nil
}

// newWriter makes the writer of a sequence, whose producer has a name of its own.
func (s *Source) newWriter(sequence string) (*stream.Writer, error) {
	producer := s.cfg.Name
	if sequence != "" {
		producer += "." + StreamOf(sequence)
	}
	return stream.NewWriter(s.client, stream.WriterConfig{
		Address: s.cfg.Address, Producer: producer, MaxMessage: s.cfg.MaxMessage, Registerer: s.cfg.Registerer,
	})
}
