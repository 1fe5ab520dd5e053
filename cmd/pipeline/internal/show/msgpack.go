package show

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/internal/jsontext"
)

// errNoJSON says that a msgpack value has no JSON that keeps what it says: bytes,
// extensions other than a time, keys that are not text, numbers that are none,
// text that is not UTF-8.
var errNoJSON = errors.New("show: no JSON for this")

// appendMsgpack appends one msgpack value as JSON, or leaves dst as it is. Integers
// keep all their digits, maps their order; a time becomes RFC 3339.
func appendMsgpack(dst, data []byte) ([]byte, bool) {
	src := bytes.NewReader(data)
	c := converter{msgpack.NewDecoder(src), dst}
	if err := c.value(codec.MaxDepth); err != nil || src.Len() > 0 {
		return dst, false
	}
	return c.dst, true
}

type converter struct {
	dec *msgpack.Decoder
	dst []byte
}

func (c *converter) value(depth int) error {
	code, err := c.dec.PeekCode()
	switch {
	case err != nil:
		return err
	case msgpcode.IsString(code):
		return c.text()
	case msgpcode.IsFixedNum(code), code >= msgpcode.Uint8 && code <= msgpcode.Int64:
		return c.integer(code)
	case msgpcode.IsExt(code):
		return c.time()
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		return c.array(depth)
	case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
		return c.object(depth)
	}
	return c.scalar(code)
}

func (c *converter) scalar(code byte) error {
	switch code {
	case msgpcode.Nil:
		c.dst = append(c.dst, "null"...)
		return c.dec.DecodeNil()
	case msgpcode.True, msgpcode.False:
		v, err := c.dec.DecodeBool()
		c.dst = strconv.AppendBool(c.dst, v)
		return err
	case msgpcode.Float:
		v, err := c.dec.DecodeFloat32()
		return errors.Join(err, c.float(float64(v), 32))
	case msgpcode.Double:
		v, err := c.dec.DecodeFloat64()
		return errors.Join(err, c.float(v, 64))
	}
	return errNoJSON
}

func (c *converter) float(v float64, bits int) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return errNoJSON
	}
	c.dst = strconv.AppendFloat(c.dst, v, 'g', -1, bits)
	return nil
}

func (c *converter) integer(code byte) error {
	if code == msgpcode.Uint64 {
		v, err := c.dec.DecodeUint64()
		c.dst = strconv.AppendUint(c.dst, v, 10)
		return err
	}
	v, err := c.dec.DecodeInt64()
	c.dst = strconv.AppendInt(c.dst, v, 10)
	return err
}

func (c *converter) text() error {
	s, err := c.dec.DecodeString()
	if err == nil && !utf8.ValidString(s) {
		err = errNoJSON
	}
	c.dst = jsontext.AppendString(c.dst, s)
	return err
}

// time reads the one extension that the msgpack specification defines.
func (c *converter) time() error {
	t, err := c.dec.DecodeTime()
	c.dst = append(c.dst, '"')
	c.dst = t.UTC().AppendFormat(c.dst, time.RFC3339Nano)
	c.dst = append(c.dst, '"')
	return err
}

func (c *converter) array(depth int) error {
	n, err := c.dec.DecodeArrayLen()
	if err != nil || depth == 0 {
		return errors.Join(err, errNoJSON)
	}
	c.dst = append(c.dst, '[')
	for i := range n {
		if i > 0 {
			c.dst = append(c.dst, ',')
		}
		if err := c.value(depth - 1); err != nil {
			return err
		}
	}
	c.dst = append(c.dst, ']')
	return nil
}

func (c *converter) object(depth int) error {
	n, err := c.dec.DecodeMapLen()
	if err != nil || depth == 0 {
		return errors.Join(err, errNoJSON)
	}
	c.dst = append(c.dst, '{')
	for i := range n {
		if i > 0 {
			c.dst = append(c.dst, ',')
		}
		if code, err := c.dec.PeekCode(); err != nil || !msgpcode.IsString(code) {
			return errors.Join(err, errNoJSON)
		}
		if err := c.text(); err != nil {
			return err
		}
		c.dst = append(c.dst, ':')
		if err := c.value(depth - 1); err != nil {
			return err
		}
	}
	c.dst = append(c.dst, '}')
	return nil
}
