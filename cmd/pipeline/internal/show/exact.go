package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
)

// AppendExact is AppendJSON so that input.NewMessages makes the same message of it: of msgpack that is shown as JSON it says
// "format":"msgpack", and what JSON has no exact words for is base64. Only JSON loses the spaces around its values. What is not UTF-8 outside of
// the data is an error.
func AppendExact(dst []byte, r *codec.Record) ([]byte, error) {
	m := &r.Message
	for _, h := range append(codec.Headers{{Key: m.Type, Value: m.Key}}, m.Headers...) {
		if !utf8.ValidString(h.Key) || !utf8.ValidString(h.Value) {
			return dst, errors.New("its type, key or headers are not UTF-8, and JSON holds nothing else")
		}
	}
	if r.Foreign() || r.Err != nil || m.Format != codec.FormatMsgpack {
		return AppendJSON(dst, r), nil
	}
	dst = appendAddress(dst, r)
	dst = appendHead(dst, m)
	begin := len(dst)
	if shown, ok := appendMsgpack(dst, m.Data); ok {
		if back, err := MsgpackOf(shown[begin:]); err == nil && bytes.Equal(back, m.Data) {
			return append(shown, `,"format":"msgpack"}`...), nil
		}
	}
	return append(append(appendBase64(dst, m.Data), encodedBase64...), `,"format":"msgpack"}`...), nil
}

// MsgpackOf is one JSON value as msgpack, integers in their shortest form, members in their order.
func MsgpackOf(text []byte) ([]byte, error) {
	var b bytes.Buffer
	c := packer{json.NewDecoder(bytes.NewReader(text)), msgpack.NewEncoder(&b)}
	c.dec.UseNumber()
	c.enc.UseCompactInts(true)
	raw, err := c.value(codec.MaxDepth)
	if err != nil {
		return nil, fmt.Errorf("show: %w", err)
	}
	if _, err := c.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("show: more than one JSON value")
	}
	err = c.put(raw)
	return b.Bytes(), err
}

type packer struct {
	dec *json.Decoder
	enc *msgpack.Encoder
}

// list holds the elements of an array, or the members of an object, a name and a value in turn.
type list struct {
	object bool
	values []any
}

// value reads a value: a list, or what Token makes of it.
func (c *packer) value(depth int) (any, error) {
	token, err := c.dec.Token()
	delim, opens := token.(json.Delim)
	if err != nil || !opens {
		return token, err
	}
	if depth == 0 {
		return nil, errNoJSON
	}
	l := list{object: delim == '{'}
	for c.dec.More() {
		v, err := c.value(depth - 1)
		if err != nil {
			return nil, err
		}
		l.values = append(l.values, v)
	}
	_, err = c.dec.Token() // what closes it
	return l, err
}

func (c *packer) put(v any) error {
	switch v := v.(type) {
	case list:
		return c.list(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return c.enc.EncodeInt(n)
		}
		var u uint64
		if json.Unmarshal([]byte(v), &u) == nil {
			return c.enc.EncodeUint(u)
		}
		f, err := v.Float64()
		return errors.Join(err, c.enc.EncodeFloat64(f))
	}
	return c.enc.Encode(v)
}

func (c *packer) list(l list) (err error) {
	if l.object {
		err = c.enc.EncodeMapLen(len(l.values) / 2)
	} else {
		err = c.enc.EncodeArrayLen(len(l.values))
	}
	for _, v := range l.values {
		err = errors.Join(err, c.put(v))
	}
	return err
}
