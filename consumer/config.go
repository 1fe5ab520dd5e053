package consumer

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const (
	defaultConcurrency  = 8
	defaultDrainTimeout = 10 * time.Second

	inFlightPerWorker  = 64
	minDefaultInFlight = 256
	maxDefaultInFlight = 2048
	maxInFlight        = 1 << 16
	defaultBytes       = 64 << 20

	defaultDeliveries = 20
	defaultBackoff    = time.Second
	defaultMaxBackoff = 10 * time.Minute
	maxMaxBackoff     = 1000 * 24 * time.Hour

	maxNamePrefix = 100 // of the 128 bytes of a name, the rest is for what makes it unique
)

// Config of a Consumer. The zero value is ready to use.
type Config struct {
	// Name begins the name under which the server lists this consumer; a random part makes it this run's own. Default
	// host and process id. It only serves people who look at the group.
	Name string
	// Concurrency is how many handlers run at the same time. Default 8. Too few leave the machine idle while handlers
	// wait for others; too many make what they share the bottleneck, and lengthen a stop.
	Concurrency int
	// MaxInFlight is how many messages may be fetched and not settled. Default 64 for each worker, at least 256, at most
	// 2048; more, up to 4096, while handlers do as many in a tenth of a second. At least Concurrency, at most 65536. Of plain
	// messages, 2048 at most are used, and a pack counts with all its messages, so that one pack may exceed the bound, and
	// more once after packs have grown. Small, workers wait for the server; large, memory grows, messages wait here while
	// other consumers are idle, and more is repeated after a crash. With slow handlers take a small multiple of Concurrency.
	MaxInFlight int
	// MaxInFlightBytes is how much the messages may weigh that are fetched and not settled, with 512 bytes for each beside
	// its own. Default 64 MiB. It is not passed by more than two fetches, of at most 512 entries, and how many are asked for
	// follows what the largest of late weighed: so the worst is two fetches of 512 large entries where there were small ones
	// before, and an entry above the bound, which comes alone. A Go program needs up to twice that (GOGC). Small messages lie
	// together in pieces of 8 KiB, which one that a handler keeps keeps whole. Small, large messages come one by one; large,
	// memory grows.
	MaxInFlightBytes int
	// MaxDeliveries is how often a message is delivered at most; then it goes to the group's dead letters. Default 20, with
	// the other defaults a bit more than two hours; below 0: without end. Deliveries that a crash has ended count, those that
	// a stop has cut short do not. Small, an outage of what the handlers need fills the dead letters; large, a message that
	// cannot be handled keeps workers busy.
	MaxDeliveries int
	// Backoff is the longest pause after the first failure of a message; it doubles with each failure up to MaxBackoff, and
	// what is waited is drawn between nothing and it. Default 1 s.
	Backoff time.Duration
	// MaxBackoff is where Backoff ends to grow. Default 10 minutes.
	MaxBackoff time.Duration
	// Order says which messages wait for each other: None, which is the default, those of one key (ByKey), or all (Strict).
	// Among what this consumer holds; see the package's page for what else it needs. With an order a message that fails
	// holds up those behind it. Strict leaves Concurrency at 1, which is its default then.
	Order Order
	// BatchSize is how many messages the handler of NewBatch is given at most. Default 100; at most 4096, which is what one
	// call settles, and MaxInFlight, since a batch could never be full otherwise. Of plain messages, 2048 are in flight at
	// most. Small, what a batch saves is small; large, a panic or a crash repeats more.
	BatchSize int
	// BatchWait is how long a batch that is not full waits for more, from its first message on. Default 0: it has what is at
	// hand. Long, messages come late when there are few; they are leased all the while.
	BatchWait time.Duration
	// DrainTimeout is how long handlers may go on after the end of Run's context. Default 10 s. Too short, work is
	// interrupted and done again elsewhere; longer than the patience of whoever stops the process, the process is killed
	// and what it holds waits for its lease.
	DrainTimeout time.Duration
	// Upcasts turn old versions of a type into newer ones before the handler, and whoever logs a message, sees them. A message
	// that a rule fails on goes to the dead letters as one that cannot be decoded, with its bytes as they are. Rules are applied by
	// several goroutines at once. Nil: none.
	Upcasts codec.Upcasts
	// Logger receives what happens. Nil discards. Repeated warnings are held back.
	Logger *slog.Logger
	// Registerer receives the metrics. Nil is fine. Consumers of one process may share one.
	Registerer prometheus.Registerer

	paced bool // MaxInFlight is the least, see pace
}

func (c *Config) setDefaults() {
	if c.Name == "" {
		c.Name = defaultName()
	}
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
		if c.Order == Strict {
			c.Concurrency = 1
		}
	}
	if c.MaxInFlight == 0 {
		c.paced = true
		c.MaxInFlight = max(c.Concurrency, min(maxInFlight, c.Concurrency*c.BatchSize), min(maxDefaultInFlight, max(minDefaultInFlight, inFlightPerWorker*c.Concurrency)))
	}
	if c.MaxInFlightBytes == 0 {
		c.MaxInFlightBytes = defaultBytes
	}
	if c.MaxDeliveries == 0 {
		c.MaxDeliveries = defaultDeliveries
	}
	if c.Backoff == 0 {
		c.Backoff = defaultBackoff
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = max(c.Backoff, defaultMaxBackoff)
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaultDrainTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	if err := tier.CheckName("consumer", c.Name); err != nil {
		return refuse("Name: %w", err)
	}
	switch {
	case len(c.Name) > maxNamePrefix:
		return refuse("Name has %d bytes, at most %d", len(c.Name), maxNamePrefix)
	case c.Concurrency < 1 || c.Concurrency > maxInFlight:
		return refuse("Concurrency is %d, want 1 to %d", c.Concurrency, maxInFlight)
	case int(c.Order) >= len(orders):
		return refuse("Order is %s, want None, ByKey or Strict", c.Order)
	case c.Order == Strict && c.Concurrency > 1:
		return refuse("Concurrency is %d with Order Strict, want 1: one message is handled at a time", c.Concurrency)
	case c.MaxInFlight < c.Concurrency:
		return refuse("MaxInFlight is %d, below the Concurrency of %d: workers would never have a message", c.MaxInFlight, c.Concurrency)
	case c.BatchSize < 0 || c.BatchSize > maxBatchSize:
		return refuse("BatchSize is %d, want 1 to %d: one call settles no more", c.BatchSize, maxBatchSize)
	case c.BatchSize > c.MaxInFlight:
		return refuse("BatchSize is %d, above the MaxInFlight of %d: a batch would never be full", c.BatchSize, c.MaxInFlight)
	case c.BatchSize > 1 && c.Order == Strict:
		return refuse("BatchSize is %d with Order Strict, want 1: one message is handled at a time", c.BatchSize)
	case c.BatchWait < 0:
		return refuse("BatchWait is %s, want nothing or more", c.BatchWait)
	case c.MaxInFlight > maxInFlight:
		return refuse("MaxInFlight is %d, at most %d", c.MaxInFlight, maxInFlight)
	case c.MaxInFlightBytes < 0:
		return refuse("MaxInFlightBytes is %d, want more than nothing", c.MaxInFlightBytes)
	case c.Backoff < 0 || c.Backoff > maxMaxBackoff:
		return refuse("Backoff is %s, want more than nothing, at most %s", c.Backoff, maxMaxBackoff)
	case c.MaxBackoff < c.Backoff || c.MaxBackoff > maxMaxBackoff:
		return refuse("MaxBackoff is %s, want at least Backoff, %s, at most %s", c.MaxBackoff, c.Backoff, maxMaxBackoff)
	case c.DrainTimeout < 0:
		return refuse("DrainTimeout is %s, want more than nothing", c.DrainTimeout)
	}
	return nil
}

// unbatched refuses what only a batch handler has.
func (c *Config) unbatched() error {
	if c.BatchSize != 0 || c.BatchWait != 0 {
		return fmt.Errorf("%w: BatchSize and BatchWait are for NewBatch", ErrConfig)
	}
	return nil
}

// defaultName is host and process id, in the letters of a name.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "consumer"
	}
	host = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, host)
	pid := "-" + strconv.Itoa(os.Getpid())
	return host[:min(len(host), maxNamePrefix-len(pid))] + pid
}
