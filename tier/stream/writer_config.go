package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// WriterConfig says what a Writer writes to and how. Only Address is needed.
type WriterConfig struct {
	// Address is "scope/stream".
	Address string
	// Brand is the brand of the stream's ids. Default: the one it was declared with, or the first free one made of the
	// name's letters. Another than the declared one is refused.
	Brand codec.Brand
	// Pack is how many messages share an entry, 1 to 4096. Default 1. Packs cost a fraction of the server's time and
	// memory; groups lease and settle them whole, so that more comes again after a crash.
	Pack int
	// Compression of packs: codec.Zstd makes those of similar messages a fraction of their size, on the wire and in the server, for
	// some of this client's and each reader's time. Default: none. Readers from before it find such packs undecodable.
	Compression codec.Compression
	// Producer names a producer whose numbers are positions of its source: exactly once after any pause, by AppendAt
	// only. Default: an unnamed producer, exactly once while it lives.
	Producer string
	// Exclusive makes this the stream's one writer: it mints the ids and stores them in the entries, which is the wire of
	// the Elixir EchoMQ 3.0. A stream is declared as exclusive or not, for good. A second writer is not kept out; who is
	// late gets ErrNonMonotonic. Neither Pack nor Producer go with it: that wire has no packs, and its ids are the record of
	// what was appended.
	Exclusive bool
	// Keyed makes this a writer of a keyed stream, in which each message has a key and each key's messages have versions from
	// 1 on: Reader.ReadKey reads them, ExpectVersion counts on them. A stream is declared as keyed or not, for good. Each
	// message costs the server an entry of an index beside that of the log. Neither Pack nor Exclusive go with it: a version
	// is one entry, and the index is written where the ids are made.
	Keyed bool
	// Mint gives the ids of an exclusive stream, normally NodeLease.Mint. The lease is the caller's, who runs it, so that
	// it is extended, and releases it when the writer has ended. Past it appends fail with codec.ErrNodeLease.
	Mint Minter
	// MaxMessage is the largest encoded message in bytes. Default 1 MiB, at most 8 MiB. Large ones cost every reader
	// memory for a whole page.
	MaxMessage int
	// MaxQueued bounds the bytes that Publish holds. Default 32 MiB. Small, it makes Publish wait for round trips.
	MaxQueued int
	// RetryFor is how long a call is repeated that the server did not answer or was not ready for. Default 30 s, at most
	// 5 minutes, half of what a producer key lives. Short, it ends in unknown outcomes on a failover; long, callers
	// without a deadline wait.
	RetryFor time.Duration
	// Replicas is how many replicas must have an append before it is acknowledged. Default 0: the primary's word does. Each
	// write then waits for the slowest of them, and its callers with it; the wait takes a connection of its own, so that other
	// users of the client go on. When they do not confirm within a second, the call is sent again, without another effect, for
	// RetryFor; then it ends with tier.ErrNotReplicated, of unknown outcome. An acknowledged append survives the primary if a
	// replica that confirmed it is promoted.
	Replicas int
	// Fsync says that the server, and so many replicas as Replicas says, must have an append on disk before it is acknowledged. Default:
	// memory does, and appendfsync says how soon the disk follows. With appendfsync everysec a write waits up to a second, in which
	// others gather; with always it costs the server a sync a call. It takes WAITAOF, of Valkey and of Redis 7.2, and an
	// append-only file. Where there is none the call ends as it does without replicas, with tier.ErrNotSynced.
	Fsync bool
	// Registerer takes the metrics. Nil: none.
	Registerer prometheus.Registerer
}

func (c *WriterConfig) setDefaults() {
	if c.Pack == 0 {
		c.Pack = 1
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = DefaultMaxMessage
	}
	if c.MaxQueued == 0 {
		c.MaxQueued = 32 << 20
	}
	if c.RetryFor == 0 {
		c.RetryFor = 30 * time.Second
	}
}

// kind is what the stream is declared as.
func (c *WriterConfig) kind() string {
	switch {
	case c.Exclusive:
		return exclusive
	case c.Keyed:
		return keyed
	}
	return ""
}

func (c *WriterConfig) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrBadCall}, args...)...))
		}
	}
	if c.Brand != "" {
		_, err := codec.ParseBrand(string(c.Brand))
		errs = append(errs, err)
	}
	if c.Producer != "" {
		errs = append(errs, tier.CheckName("producer", c.Producer))
	}
	check(c.Pack >= 1 && c.Pack <= codec.MaxPack, "Pack %d: 1 to %d", c.Pack, codec.MaxPack)
	check(c.Exclusive == (c.Mint != nil), "Exclusive and Mint go together: give it the mint of a node lease (Client.LeaseNode)")
	check(c.Compression <= codec.Zstd, "Compression %d: codec.NoCompression or codec.Zstd", c.Compression)
	check(c.Compression == codec.NoCompression || c.Pack > 1, "Compression: only packs are compressed; set Pack, 100 for instance")
	check(!c.Exclusive || c.Pack == 1, "Pack %d: the wire of an exclusive stream has no packs", c.Pack)
	check(!c.Exclusive || c.Producer == "", "Producer %s: on an exclusive stream the ids are the record of what was appended", c.Producer)
	check(!c.Keyed || c.Pack == 1, "Pack %d: a keyed stream has no packs, each version is an entry", c.Pack)
	check(!c.Keyed || !c.Exclusive, "Keyed and Exclusive: an exclusive stream has no index of its keys; use one of the two")
	check(c.Replicas >= 0, "Replicas %d: 0 or more", c.Replicas)
	check(c.MaxMessage > 0 && c.MaxMessage <= MaxBatchBytes, "MaxMessage %d: 1 to %d", c.MaxMessage, MaxBatchBytes)
	check(c.MaxQueued >= c.MaxMessage, "MaxQueued %d: at least MaxMessage, %d", c.MaxQueued, c.MaxMessage)
	check(c.RetryFor > 0 && c.RetryFor <= producerTTL/2, "RetryFor %s: more than 0, at most %s", c.RetryFor, producerTTL/2)
	return errors.Join(errs...)
}
