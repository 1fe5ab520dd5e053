package codec

// Header is one key and one value. Both are bytes: UTF-8 is not required.
type Header struct{ Key, Value string }

// Headers are the headers of a message, in the order of the wire. Keys are
// unique; a message with a key twice is refused by [AppendMessage].
type Headers []Header

// HeaderContentType names the media type of the payload.
const HeaderContentType = "content-type"

// HeaderReplayOf is the id of the message that this one repeats. Who replays a stream into another sets it, and handlers are told
// by it that what the message says is not new.
const HeaderReplayOf = "replay-of"

// Repeats tells whether the message repeats one of another stream.
func (m *Message) Repeats() bool { return m.Headers.index(HeaderReplayOf) >= 0 }

// Get returns the value of key, and whether there is one.
func (h Headers) Get(key string) (string, bool) {
	if i := h.index(key); i >= 0 {
		return h[i].Value, true
	}
	return "", false
}

// Set replaces the value of key in place, or appends it.
func (h *Headers) Set(key, value string) {
	if i := h.index(key); i >= 0 {
		(*h)[i].Value = value
		return
	}
	*h = append(*h, Header{key, value})
}

func (h Headers) index(key string) int {
	for i := range h {
		if h[i].Key == key {
			return i
		}
	}
	return -1
}
