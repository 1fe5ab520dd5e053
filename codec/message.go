package codec

import "math"

// Format says what the data of a message is.
type Format uint8

const (
	// FormatBytes is an opaque payload, a msgpack bin on the wire. Nil and empty are
	// the same.
	FormatBytes Format = iota
	// FormatMsgpack is one well-formed msgpack value, in line on the wire. A value
	// that is a bin is FormatBytes with its contents to whoever decodes it.
	FormatMsgpack
)

// The caps of a message. [AppendMessage] refuses what is over one with a
// *LimitError. The size of a whole message is its writer's business.
const (
	MaxType        = 255     // bytes
	MaxKey         = 1024    // bytes
	MaxHeaders     = 64      // headers; readers refuse more, too
	MaxHeaderKey   = 255     // bytes
	MaxHeaderValue = 8 << 10 // bytes

	maxData = math.MaxInt32 // fits an int everywhere; servers take 512 MiB
)

// Message is an event: what it is (Type), whom it concerns (Key, which routes
// and orders), flat headers, and a payload. No field is needed, but readers tell
// messages apart by their Type. Every string is bytes: it need not be UTF-8, and
// comes out exactly as it went in.
type Message struct {
	Type    string
	Key     string
	Headers Headers
	Data    []byte
	Format  Format
}

// The envelope is one msgpack array with fixed positions.
const (
	messageVersion = 1
	messageLen     = 5
)
