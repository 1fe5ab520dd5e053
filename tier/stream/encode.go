package stream

import "github.com/echomq/pipeline/codec"

func (w *Writer) encode(ms []codec.Message) (encoded []string, bytes int, err error) {
	if len(ms) > maxBatch {
		return nil, 0, &TooLargeError{What: "batch, messages", Size: len(ms), Limit: maxBatch}
	}
	encoded = make([]string, len(ms))
	for i := range ms {
		if encoded[i], err = w.encodeOne(&ms[i]); err != nil {
			return nil, 0, err
		}
		bytes += len(encoded[i])
	}
	if bytes > maxBatchBytes {
		return nil, 0, &TooLargeError{What: "batch, bytes", Size: bytes, Limit: maxBatchBytes}
	}
	return encoded, bytes, nil
}

// What the encoding adds at most, to a message and to each header.
const (
	envelopeBytes = 24
	headerBytes   = 6
)

func (w *Writer) encodeOne(m *codec.Message) (string, error) {
	size := envelopeBytes + len(m.Type) + len(m.Key) + len(m.Data)
	for i := range m.Headers {
		size += headerBytes + len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	if size > w.cfg.MaxMessage+envelopeBytes+headerBytes*codec.MaxHeaders { // too large without encoding it
		return "", &TooLargeError{What: "message, bytes", Size: size, Limit: w.cfg.MaxMessage}
	}
	b, err := codec.AppendMessage(make([]byte, 0, size), m)
	if err != nil {
		return "", err
	}
	if len(b) > w.cfg.MaxMessage {
		return "", &TooLargeError{What: "message, bytes", Size: len(b), Limit: w.cfg.MaxMessage}
	}
	return stringOf(b), nil
}
