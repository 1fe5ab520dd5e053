package tier

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// This file is the only place that spells a key. KEYS.md lists type, members and lifetime of each. The callers pass
// names that went through CheckName or ParseAddress, or producer ids made of hexadecimal digits.

// VersionKey is the version fence of a deployment.
const VersionKey = "{emq}:version"

// NodesKey is the node registry of a deployment.
const NodesKey = "{emq}:nodes"

// TopologiesKey is the hash of what topologies have declared on a deployment.
const TopologiesKey = "{emq}:topologies"

// ScopeKey is the hash of what all clients of a scope must agree on.
func ScopeKey(scope string) string { return "emq:{" + scope + "}:scope" }

// ScopePattern matches all keys of a scope, for SCAN.
func ScopePattern(scope string) string { return "emq:{" + scope + "}:*" }

// AtRestKey never exists. A script that has it among its keys is not begun by a server of a cluster while the scope's slot
// is on its way to another: see Script.
func AtRestKey(scope string) string { return "emq:{" + scope + "}:at-rest" }

// LogKey is the stream itself.
func (a Address) LogKey() string {
	if a.Key != "" {
		return a.Key
	}
	return a.base()
}

// base begins the keys of what belongs to the stream.
func (a Address) base() string { return "emq:{" + a.Scope + "}:stream:" + a.Stream }

// ProducerKey holds a producer's last number and receipts.
func (a Address) ProducerKey(producer string) string { return a.base() + ":pid:" + producer }

// SeenKey marks a key of AppendOnce, any text, for its window: the first 16 bytes of its SHA-256, in hexadecimal.
func (a Address) SeenKey(key string) string { return a.base() + ":seen:" + hash(key) }

// DoneKey is the record of an effect, by any text that is its message's own, hashed like that of SeenKey.
func (a Address) DoneKey(records, id string) string {
	return a.base() + ":done:" + records + ":" + hash(id)
}

// NotedKey marks a key of a Seen for its window, hashed like that of SeenKey.
func NotedKey(scope, name, key string) string {
	return "emq:{" + scope + "}:noted:" + name + ":" + hash(key)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// IndexKey is the index of a key of a keyed stream: the addresses of its messages by their versions. The key is that of a
// message, any bytes, 1 to 1024 of them.
func (a Address) IndexKey(key string) string { return a.base() + ":key:" + key }

// SnapshotKey is the state that was folded from a key of a keyed stream, which may be lost.
func (a Address) SnapshotKey(key string) string { return a.base() + ":snap:" + key }

// FoldKey is the snapshot of a state that processes fold from the whole stream in their memory, which may be lost.
func (a Address) FoldKey(projection string) string { return a.base() + ":fold:" + projection }

// GroupKey is a group's own hash.
func (a Address) GroupKey(group string) string { return a.base() + ":g:" + group }

// OwnersKey is the hash of a group's consumers: their numbers and beats.
func (a Address) OwnersKey(group string) string { return a.GroupKey(group) + ":owners" }

// RetryKey is the sorted set of a group's parked entries: when each is due.
func (a Address) RetryKey(group string) string { return a.GroupKey(group) + ":retry" }

// OpenKey is the hash of a group's entries of which only some messages are open, and at which attempt each is.
func (a Address) OpenKey(group string) string { return a.GroupKey(group) + ":open" }

// DeadKey is the stream of a group's dead letters.
func (a Address) DeadKey(group string) string { return a.base() + ":dead:" + group }

// CursorsKey is the hash of all cursors of the stream: who owns each, and how far it is. What a cursor has parked lies at
// RetryKey and OpenKey of its name, what it has given up at DeadKey.
func (a Address) CursorsKey() string { return a.base() + ":cursors" }

// StateKey holds what outputs wrote under the name: a hash, a sorted set or a set.
func StateKey(scope, name string) string { return "emq:{" + scope + "}:state:" + name }

// MembersKey is the sorted set of who takes part in owning partitions by cursors of a name, in partition 0: their beats.
func (a Address) MembersKey(cursor string) string { return a.base() + ":members:" + cursor }

// ProjectionsKey holds which version of each projection is live.
func ProjectionsKey(scope string) string { return "emq:{" + scope + "}:projections" }

// Queue names a job queue, which is a scope: CheckName("scope") holds of it. Its keys stand below "jobs:".
type Queue string

// QueuesPattern matches the keys of which each queue has one, and few others, for SCAN: not its results.
const QueuesPattern = "emq:{*}:jobs:[cioq]*"

func (q Queue) key(name string) string { return "emq:{" + string(q) + "}:jobs:" + name }

// QueueKey is the hash of what all clients and workers of a queue must agree on.
func (q Queue) QueueKey() string { return q.key("queue") }

// LaneKey is the stream of a lane: its ready and active jobs.
func (q Queue) LaneKey(lane string) string { return q.key("lane:" + lane) }

// LanesKey is the hash of lanes that differ from the default.
func (q Queue) LanesKey() string { return q.key("lanes") }

// RingKey is the sorted set of lanes that have jobs to hand out: when each has its next turn.
func (q Queue) RingKey() string { return q.key("ring") }

// LeasedKey is the sorted set of lanes that have active jobs: when somebody is to look at them.
func (q Queue) LeasedKey() string { return q.key("leased") }

// LimitedKey is the sorted set of lanes whose rate allows nothing just now: when it does again.
func (q Queue) LimitedKey() string { return q.key("held") }

// BucketsKey is the hash of what rates allow: how many tokens there were, and when.
func (q Queue) BucketsKey() string { return q.key("buckets") }

// ActiveKey is the hash of how many jobs are active, by lanes, where the queue has a ceiling.
func (q Queue) ActiveKey() string { return q.key("active") }

// JobsKey is the hash of all jobs that are not done: where each is.
func (q Queue) JobsKey() string { return q.key("ids") }

// BodiesKey is the hash of what jobs hold that are in no lane.
func (q Queue) BodiesKey() string { return q.key("body") }

// NotesKey is the hash of what was noted of jobs that are not done: how far each is, and its log.
func (q Queue) NotesKey() string { return q.key("notes") }

// UniqueKey is the hash of unique keys: which job has each.
func (q Queue) UniqueKey() string { return q.key("unique") }

// JobsDueKey is the sorted set of jobs that wait for their time.
func (q Queue) JobsDueKey() string { return q.key("due") }

// BuriedKey is the sorted set of dead jobs: when each died.
func (q Queue) BuriedKey() string { return q.key("dead") }

// WaitingKey is the sorted set of jobs that wait for their children: since when each does.
func (q Queue) WaitingKey() string { return q.key("waiting") }

// ChildrenKey is the hash of a job's children: which are open, and what the others came to.
func (q Queue) ChildrenKey(job string) string { return q.key("flow:" + job) }

// OutboxKey is the stream of what a queue has to tell others, or its own waiting jobs.
func (q Queue) OutboxKey() string { return q.key("outbox") }

// WorkersKey is the hash of a queue's workers: their numbers and beats.
func (q Queue) WorkersKey() string { return q.key("owners") }

// WakeKey is the list that workers without work wait on.
func (q Queue) WakeKey() string { return q.key("wake") }

// CallsKey holds what the last calls of a client were answered.
func (q Queue) CallsKey(producer string) string { return q.key("pid:" + producer) }

// SchedulesKey is the hash of schedules: what each was declared as.
func (q Queue) SchedulesKey() string { return q.key("cron") }

// OccurrencesKey is the sorted set of schedules: when each is due next.
func (q Queue) OccurrencesKey() string { return q.key("cron:next") }

// CancelledKey is the hash of active jobs that are cancelled, until their workers have given them up.
func (q Queue) CancelledKey() string { return q.key("cancelled") }

// CancelChannel is the sharded channel on which workers learn at once that jobs of theirs are cancelled.
func (q Queue) CancelChannel() string { return q.key("cancel") }

// ResultKey is what a job came to, for as long as it is kept.
func (q Queue) ResultKey(job string) string { return q.key("result:" + job) }

// Events is the stream, of the queue's scope, of what becomes of its jobs.
func (q Queue) Events() Address { return Address{Scope: string(q), Stream: "jobs.events"} }

// SweeperKey is the hash of who trims the streams of a scope.
func SweeperKey(scope string) string { return "emq:{" + scope + "}:sweeper" }

// RetentionKey is the hash of what policies took from the stream, and of what the archive has.
func (a Address) RetentionKey() string { return a.base() + ":retention" }

// ArchivedKey is the string up to which id the archive has the stream: the mark of RetentionKey, where other programs look for it.
func (a Address) ArchivedKey() string { return a.LogKey() + ":archived" }

// RestoreKey is the log of what is being restored, until it is in the stream's.
func (a Address) RestoreKey() string { return a.base() + ":restore" }

// scopeOf is the scope that one of our keys belongs to.
func scopeOf(key string) (scope string, ours bool) {
	rest, ours := strings.CutPrefix(key, "emq:{")
	scope, _, closed := strings.Cut(rest, "}")
	return scope, ours && closed
}

// Slot is the cluster slot of a key: CRC16 (XMODEM) of its hash tag, or of the whole key, modulo 16384. Source: the
// cluster specification of Valkey and Redis.
func Slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % 16384
}

func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// Fields of the hash at ScopeKey.
const (
	// NodeField holds the scope's node number.
	NodeField = "node"
	// GoneMark stands before the brand in a stream's field once the stream was removed by its verb.
	GoneMark = "-"
	// ExclusiveMark stands behind the brand of a stream whose ids are minted by its one writer.
	ExclusiveMark = " exclusive"
	// KeyedMark stands behind the brand of a stream that has an index of each key's messages.
	KeyedMark = " keyed"
	// PartitionsField holds how many partitions the scope has, a Layout; it is used for nothing else then.
	PartitionsField = "partitions"
	// PartitionField says which partition the scope is, a Partition.
	PartitionField = "partition"
	// PartitionMark stands behind the brand of a stream in a partition, before "<index>/<layout>".
	PartitionMark = " partition "
)

// StreamField holds the brand of a stream, after GoneMark when it was removed, before ExclusiveMark or KeyedMark when it is of
// that kind.
func StreamField(stream string) string { return "stream:" + stream }

// TopField holds the last id of a stream that was ahead of the clock when it was given.
func TopField(stream string) string { return "top:" + stream }

// RetentionField holds what of a stream may go, in words.
func RetentionField(stream string) string { return "retention:" + stream }

// BrandField holds the name of the stream that a brand belongs to.
func BrandField(brand string) string { return "brand:" + brand }

// StreamOfField is the inverse of StreamField.
func StreamOfField(field string) (stream string, ok bool) { return strings.CutPrefix(field, "stream:") }

// Fields of the hash at NodesKey.

// ScopeNumberField holds the node number of a scope.
func ScopeNumberField(scope string) string { return "scope:" + scope }

// NumberField holds who has a node number: a scope, or "holder limit" of a process.
func NumberField(number int) string { return "node:" + strconv.Itoa(number) }

// Fields of the hash at GroupKey.
const (
	LeaseField = "lease" // ms
	StartField = "start" // id of the first message, as declared
	FloorField = "floor" // every entry at or below it is settled
	// PausedField holds since when the group is paused, unix ms; without it it is not.
	PausedField = "paused"
	// DeletedField holds when the group was deleted by its verb, unix ms; with it there are no others.
	DeletedField = "deleted"
)

// RateField holds how many jobs of a queue may begin in a time, in the hash at QueueKey: "jobs ms".
const RateField = "rate"

// EventsField holds how many entries the events of a queue keep, in the hash at QueueKey; without it there are none.
const EventsField = "events"

// CursorField holds one of the values of a cursor in the hash at CursorsKey.
func CursorField(cursor, value string) string { return cursor + ":" + value }

// Fields of the hash at RetentionKey.
const (
	// TrimmedField holds how many entries policies took away.
	TrimmedField = "trimmed"
	// MarkField holds the id up to which the archive has every entry; without it there is no archive.
	MarkField = "mark"
	// LostField holds the id below which entries are gone that the archive does not have, if there is one; those that it has, it has.
	LostField = "lost"
)

// DroppedField holds how many entries a hard cap took from a group or a cursor that it had not settled; of none: that the
// archive did not have.
func DroppedField(holder string) string { return "dropped:" + holder }

// BeatField holds a member's last beat in the hash at OwnersKey, beside its number.
func BeatField(member string) string { return member + BeatSuffix }

// BeatSuffix ends the fields of beats.
const BeatSuffix = ":beat"
