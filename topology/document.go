package topology

import (
	"time"

	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/topology/stage"
)

// Document declares a pipeline. One that is made in Go is checked by Check.
type Document struct {
	// Name of the topology: what is declared on a server remembers it, and belongs to one topology only.
	Name string `yaml:"topology"`
	// Include are files that are read as if they stood here, by their paths from the directory of this one.
	Include []string `yaml:"include,omitempty"`
	// Scopes hold streams. What is in one scope lies on one slot of a cluster, and changes together.
	Scopes map[string]Scope `yaml:"scopes,omitempty"`
	// Queues hold jobs. A queue is a scope of its own.
	Queues map[string]Queue `yaml:"queues,omitempty"`
	// Sources bring messages in.
	Sources map[string]stage.SourceConfig `yaml:"sources,omitempty"`
	// Stages make messages of messages.
	Stages map[string]stage.Config `yaml:"stages,omitempty"`
	// Projections fold messages into a state for each key.
	Projections map[string]stage.Projection `yaml:"projections,omitempty"`
	// Sinks take messages out.
	Sinks map[string]stage.SinkConfig `yaml:"sinks,omitempty"`

	places map[string]place // of a document that was read
}

// Scope declares streams, and into how many partitions they are split.
type Scope struct {
	// Partitions is how many the scope has, each of them a scope on a slot of its own; messages go by their keys. Default:
	// none. To change it later is a migration, which waits until all is handled.
	Partitions int `yaml:"partitions,omitempty"`
	// Streams of the scope, by name.
	Streams map[string]Stream `yaml:"streams,omitempty"`
}

// Stream declares a log.
type Stream struct {
	// Brand is three capital letters in front of the stream's ids, one stream's in a scope. Default: made of the name. It stays
	// as it is for good.
	Brand string `yaml:"brand,omitempty"`
	// Exclusive is a stream whose one writer mints the ids, as those of EchoMQ 3.0. For good.
	Exclusive bool `yaml:"exclusive,omitempty"`
	// Keyed is a stream in which the messages of each key have versions. For good.
	Keyed bool `yaml:"keyed,omitempty"`
	// External says that programs outside this document append to the stream.
	External bool `yaml:"external,omitempty"`
	// Retention says what of the stream may go. Default: nothing.
	Retention *Retention `yaml:"retention,omitempty"`
	// Groups are those of consumers outside this document, by name. Stages and sinks need none.
	Groups map[string]Group `yaml:"groups,omitempty"`
}

// Group declares a group of consumers.
type Group struct {
	// Start is where the group begins when it is made: head, the oldest message, or new, what is appended afterwards. Default head.
	Start string `yaml:"start,omitempty"`
	// Lease is how long a consumer may be silent before others take over what it holds. Default 30s. It stays as it is for
	// as long as there is the group.
	Lease stage.Duration `yaml:"lease,omitempty"`
}

// Retention declares what of a stream may go. An entry goes when one of the first four says so and nobody needs it any more.
type Retention struct {
	// MaxAge is since when an entry was appended: 30d.
	MaxAge stage.Duration `yaml:"max_age,omitempty"`
	// MaxLength is how many entries stay, the newest.
	MaxLength int64 `yaml:"max_length,omitempty"`
	// MaxBytes is how much of the server's memory the stream may take: 1GiB.
	MaxBytes stage.Size `yaml:"max_bytes,omitempty"`
	// Settled lets all go that everybody is through with.
	Settled bool `yaml:"settled,omitempty"`
	// Exact takes the last entry that may go, where up to a hundred more stay without it.
	Exact bool `yaml:"exact,omitempty"`
	// HardCap is of how many entries the oldest go whoever needs them.
	HardCap int64 `yaml:"hard_cap,omitempty"`
	// RetireAfter is after how long without a sign of life a group is deleted that has something to do.
	RetireAfter stage.Duration `yaml:"retire_after,omitempty"`
	// Archive is the store to which the stream is archived: file:///path or s3://bucket/prefix?region=eu-west-1. No
	// credentials: the process that archives has its own.
	Archive string `yaml:"archive,omitempty"`
	// SegmentBytes is how much of the server's memory the entries of a segment take, about. Default 64MiB.
	SegmentBytes stage.Size `yaml:"segment_bytes,omitempty"`
	// SegmentAge is how old the oldest entry gets before a small segment is made. Default 1h.
	SegmentAge stage.Duration `yaml:"segment_age,omitempty"`
	// ArchiveAge is how long the archive keeps a segment. Default: for ever.
	ArchiveAge stage.Duration `yaml:"archive_age,omitempty"`
}

// policy is the declaration as the server has it.
func (r *Retention) policy() stream.Retention {
	if r == nil {
		return stream.Retention{}
	}
	return stream.Retention{
		MaxLength: r.MaxLength, MaxAge: time.Duration(r.MaxAge), MaxBytes: int64(r.MaxBytes), Settled: r.Settled, Exact: r.Exact,
		HardCap: r.HardCap, Retire: time.Duration(r.RetireAfter), Archive: r.Archive, SegmentBytes: int64(r.SegmentBytes),
		SegmentAge: time.Duration(r.SegmentAge), ArchiveAge: time.Duration(r.ArchiveAge),
	}
}

// Queue declares a queue of jobs.
type Queue struct {
	// Ceiling is how many of its jobs may be active at once. Default: any number.
	Ceiling int `yaml:"ceiling,omitempty"`
	// Rate is how many of its jobs may begin in a time: 1000/1m. Default: any number.
	Rate Rate `yaml:"rate,omitempty"`
	// Events is how many messages are kept, about, of what becomes of its jobs. Default: none.
	Events int `yaml:"events,omitempty"`
	// Lanes that differ from the default, by name. Others come and go with their jobs.
	Lanes map[string]Lane `yaml:"lanes,omitempty"`
	// Schedules make jobs at certain times, by name.
	Schedules map[string]Schedule `yaml:"schedules,omitempty"`
}

// Lane declares how a lane has its turns.
type Lane struct {
	// Weight is its part of the turns, 0.001 to 1000. Default 1.
	Weight float64 `yaml:"weight,omitempty"`
	// Ceiling is how many of its jobs may be active at once. Default: any number.
	Ceiling int `yaml:"ceiling,omitempty"`
	// Rate is how many of its jobs may begin in a time: 10/1s. Default: any number.
	Rate Rate `yaml:"rate,omitempty"`
}

// Schedule declares when which job is made. Cron or Every is needed, and Type.
type Schedule struct {
	// Cron is five fields, or @daily and the like: "0 3 * * *".
	Cron string `yaml:"cron,omitempty"`
	// Zone is that of Cron: Europe/Berlin. Default UTC.
	Zone string `yaml:"zone,omitempty"`
	// Every is an interval in place of Cron: 15m.
	Every stage.Duration `yaml:"every,omitempty"`
	// Anchor is a time on the grid of Every: 2026-01-01T06:00:00Z.
	Anchor time.Time `yaml:"anchor,omitempty"`
	// CatchUp is what becomes of what was missed: once, skip or all. Default once.
	CatchUp string `yaml:"catch_up,omitempty"`
	// Limit is how many jobs catch_up all makes at most. Default 100.
	Limit int `yaml:"limit,omitempty"`
	// Lane of the job. Default: default.
	Lane string `yaml:"lane,omitempty"`
	// Type of the job, by which its worker is found.
	Type string `yaml:"type"`
	// Key of the job's message.
	Key string `yaml:"key,omitempty"`
	// Data is its payload.
	Data any `yaml:"data,omitempty"`
}
