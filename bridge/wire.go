package bridge

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/codec"
)

// Wire is how messages stand in a log. The zero value is Native.
type Wire uint8

const (
	// Native is the wire of this module's streams, with all that they can do.
	Native Wire = iota
	// RedisStream is the wire of watermill-redisstream, the backend of Watermill for Redis Streams, in its default form: a topic
	// is the key of its log, any text, and both may read and write it, in one group. It is for migrations: publishing again
	// after a lost reply may make a duplicate, and there is no order by key.
	RedisStream
)

// decode is the message as it was published.
func (w Wire) decode(r *codec.Record) (*message.Message, error) {
	if w == RedisStream {
		return decodeRedisStream(r.Fields)
	}
	return decode(r)
}
