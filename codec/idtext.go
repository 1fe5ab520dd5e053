package codec

import "github.com/vmihailenco/msgpack/v5"

// String returns the 14 characters, or "" for the zero value.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	return string(id[:])
}

// AppendText appends the 14 characters; nothing for the zero value.
func (id ID) AppendText(dst []byte) ([]byte, error) {
	if id.IsZero() {
		return dst, nil
	}
	return append(dst, id[:]...), nil
}

// MarshalText returns the id as text, in JSON too; the zero value is empty.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalText reads what MarshalText wrote: empty text is the zero value, the
// rest goes through [Parse].
func (id *ID) UnmarshalText(text []byte) error { return id.set(string(text)) }

// EncodeMsgpack writes the id as a msgpack str.
func (id ID) EncodeMsgpack(enc *msgpack.Encoder) error { return enc.EncodeString(id.String()) }

// DecodeMsgpack reads what EncodeMsgpack wrote.
func (id *ID) DecodeMsgpack(dec *msgpack.Decoder) error {
	s, err := dec.DecodeString()
	if err != nil {
		return err
	}
	return id.set(s)
}

func (id *ID) set(s string) error {
	if s == "" {
		*id = ID{}
		return nil
	}
	parsed, err := Parse(s)
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
