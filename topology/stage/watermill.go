package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// A Subscriber makes what pours a topic into a stream: bridge.NewSource, with what a Topic says and what only the program knows, by
// which position or for which window it knows the messages of its Watermill subscriber. It is called once for each source. That it
// stands between the two is what keeps Watermill out of programs that have no use for it, as pipeline itself.
type Subscriber func(Topic) (interface{ Run(context.Context) error }, error)

// A Publisher makes the handler that publishes to a topic: bridge.Sink. It is called once for each sink.
type Publisher func(topic string) consumer.Handler

// Topic is what a source has to pour where.
type Topic struct {
	Client *tier.Client
	// Source is the name of the source.
	Source string
	// Topic is subscribed to.
	Topic string
	// To is the address of the stream.
	To string
	// Make makes the message of what came, by the expressions of the declaration. An error is of that message. It is for one goroutine at a time.
	Make func(codec.Message) (codec.Message, error)
	// PassOver notes that a message cannot be appended, ever, and why.
	PassOver   func(id string, why error)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// ErrNoTopics says that the run has no subscriber or publisher of the name that a source or a sink has.
var ErrNoTopics = errors.New("stage: no Watermill subscriber or publisher of this name was given: it is for Options.Subscribers or Options.Publishers of a program in Go (docs/stages.md)")

// topicSource runs what its subscriber has made.
type topicSource struct {
	*feed
	pour interface{ Run(context.Context) error }
}

func newTopicSource(f *feed, cfg Watermill, opts Options) (Runner, error) {
	subscriber, given := opts.Subscribers[cfg.Name]
	if !given {
		return nil, fmt.Errorf("%w: %.64q", ErrNoTopics, cfg.Name)
	}
	pour, err := subscriber(Topic{
		Client: f.client, Source: f.name, Topic: cfg.Topic, To: f.to, Logger: f.log, Registerer: opts.Registerer,
		Make: func(in codec.Message) (codec.Message, error) {
			m, err := f.message(in)
			if err == nil {
				f.metrics.handled.Inc()
			}
			return m, err
		},
		PassOver: func(id string, why error) {
			f.metrics.dead.Inc()
			f.log.Error("message passed over", slog.String("topic", cfg.Topic), slog.String("message", id), slog.Any("err", why))
		},
	})
	return &topicSource{f, pour}, err
}

// Run implements Runner.
func (s *topicSource) Run(ctx context.Context) error {
	if !s.ran.CompareAndSwap(false, true) {
		return consumer.ErrRan
	}
	close(s.ready)
	return s.pour.Run(ctx)
}
