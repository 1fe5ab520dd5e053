package aggregate

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
)

// snapshot is a state as it is kept. The address tells it from one of a log that was there before: versions begin anew, and
// addresses do not come again.
type snapshot[T any] struct {
	//lint:ignore U1000 the msgpack library reads its tag
	_msgpack struct{} `msgpack:",as_array"`
	Schema   int
	Version  uint64
	At       string // of the message at that version
	State    T
}

// snapshot is the state that was kept, zero when there is none of use. It is a cache: nothing about it is an error.
func (r *Repository[T]) snapshot(ctx context.Context, key string) (state State[T]) {
	if r.cfg.SnapshotEvery < 0 {
		return state
	}
	at := r.addr.SnapshotKey(key)
	m, err := r.client.Do(ctx, at, r.client.B().Get().Key(at).Build())
	if rueidis.IsRedisNil(err) {
		return state
	}
	var kept snapshot[T]
	if err == nil {
		kept, err = decoded[T](m)
	}
	if err != nil {
		r.useless(key, err)
		return state
	}
	if kept.Schema != r.cfg.Schema || kept.Version == 0 {
		return state
	}
	addr, err := r.reader.VersionAt(ctx, key, kept.Version)
	if err != nil || addr.String() != kept.At { // newer than the log, or of another one
		return state
	}
	return State[T]{Value: kept.State, Version: kept.Version, at: addr}
}

func decoded[T any](m rueidis.RedisMessage) (kept snapshot[T], err error) {
	data, err := m.AsBytes()
	if err != nil {
		return kept, err
	}
	return codec.Msgpack[snapshot[T]]().Decode(&codec.Message{Data: data, Format: codec.FormatMsgpack})
}

// keep keeps a state, in the place of the one before it.
func (r *Repository[T]) keep(ctx context.Context, key string, state State[T]) {
	var m codec.Message
	err := codec.Msgpack[snapshot[T]]().Encode(&m, snapshot[T]{Schema: r.cfg.Schema, Version: state.Version, At: state.at.String(), State: state.Value})
	if err == nil {
		at := r.addr.SnapshotKey(key)
		_, err = r.client.Do(ctx, at, r.client.B().Set().Key(at).Value(rueidis.BinaryString(m.Data)).Build())
	}
	if err != nil {
		r.useless(key, err)
	}
}

// useless tells of a snapshot that cannot be read or written: each load then folds from the first message.
func (r *Repository[T]) useless(key string, err error) {
	r.client.Logger().Warn("snapshot not used", "stream", r.addr.String(), "key", key, "err", err)
}
