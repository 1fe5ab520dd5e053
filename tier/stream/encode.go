package stream

import (
	"fmt"

	"github.com/echomq/pipeline/codec"
)

// parcel is what one caller appends, or several who share a call.
type parcel struct {
	messages []string // encoded
	keys     []string // of the messages, of a keyed stream
	bytes    int
	number   uint64    // of a named producer, the position in its source
	follows  string    // what the producer's last position has to be; empty: any
	only     *expected // if that holds; nil: in any case
}

func (w *Writer) encode(ms []codec.Message) (p parcel, err error) {
	if len(ms) > MaxBatch {
		return p, &TooLargeError{What: "batch, messages", Size: len(ms), Limit: MaxBatch}
	}
	p.messages = make([]string, len(ms))
	if w.cfg.Keyed {
		p.keys = make([]string, len(ms))
	}
	for i := range ms {
		if p.messages[i], err = w.encodeOne(&ms[i]); err != nil {
			return p, err
		}
		if w.cfg.Keyed {
			if p.keys[i] = ms[i].Key; ms[i].Key == "" {
				return p, fmt.Errorf("%w: message %d has no key: each message of a keyed stream needs one", ErrBadCall, i)
			}
		}
		p.bytes += len(p.messages[i])
	}
	if p.bytes > MaxBatchBytes {
		return p, &TooLargeError{What: "batch, bytes", Size: p.bytes, Limit: MaxBatchBytes}
	}
	return p, nil
}

func (w *Writer) encodeOne(m *codec.Message) (string, error) {
	size := m.Size()
	if size > w.cfg.MaxMessage+codec.SizeSlack { // too large without encoding it
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
