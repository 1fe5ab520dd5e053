// Package show turns what was read into text: messages as JSON lines or as lines
// for people, numbers, tables.
package show

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/internal/jsontext"
)

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Time is t in UTC, in RFC 3339 with milliseconds.
func Time(t time.Time) string { return t.UTC().Format(timeLayout) }

// AppendJSON appends one message as one JSON object, without a line end:
//
//	{"id","entry","time","type","key","headers","data"}
//
// Time is that of the id. Data is JSON where it can be, else base64 with
// "encoding":"base64", and with "format":"msgpack" when the bytes are that. A
// foreign entry has an empty id and its raw "fields", name and value in turn; one
// that cannot be decoded has "error" as well.
func AppendJSON(dst []byte, r *codec.Record) []byte {
	dst = appendHead(appendAddress(dst, r), &r.Message)
	if r.Foreign() || r.Err != nil {
		dst = appendRaw(dst, r)
	} else {
		dst = appendData(dst, &r.Message)
	}
	return append(dst, '}')
}

// appendAddress opens the object, and appends where the message stands.
func appendAddress(dst []byte, r *codec.Record) []byte {
	dst = append(dst, `{"id":"`...)
	dst, _ = r.ID.AppendText(dst)
	dst = append(dst, `","entry":"`...)
	dst = append(dst, r.Position.String()...)
	dst = append(dst, `","time":"`...)
	return append(r.Addr.Time().AppendFormat(dst, timeLayout), `",`...)
}

// AppendMessage appends a message that has no address, as AppendJSON does with one that has.
func AppendMessage(dst []byte, m *codec.Message) []byte {
	return append(appendData(appendHead(append(dst, '{'), m), m), '}')
}

// appendHead appends all but the data, up to their name.
func appendHead(dst []byte, m *codec.Message) []byte {
	dst = append(dst, `"type":`...)
	dst = jsontext.AppendString(dst, m.Type)
	dst = append(dst, `,"key":`...)
	dst = jsontext.AppendString(dst, m.Key)
	dst = append(dst, `,"headers":{`...)
	for i, h := range m.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendString(dst, h.Key), ':')
		dst = jsontext.AppendString(dst, h.Value)
	}
	return append(dst, `},"data":`...)
}

// appendRaw appends what there is of an entry that holds no message.
func appendRaw(dst []byte, r *codec.Record) []byte {
	dst = append(dst, `null,"fields":[`...)
	text := true
	for _, f := range r.Fields {
		text = text && utf8.ValidString(f)
	}
	for i, f := range r.Fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		if text {
			dst = jsontext.AppendString(dst, f)
		} else {
			dst = appendBase64(dst, []byte(f))
		}
	}
	dst = append(dst, ']')
	if !text {
		dst = append(dst, encodedBase64...)
	}
	if r.Err != nil {
		dst = append(dst, `,"error":`...)
		dst = jsontext.AppendString(dst, r.Err.Error())
	}
	return dst
}

const encodedBase64 = `,"encoding":"base64"`

func appendData(dst []byte, m *codec.Message) []byte {
	if m.Format == codec.FormatMsgpack {
		if out, ok := appendMsgpack(dst, m.Data); ok {
			return out
		}
		return append(append(appendBase64(dst, m.Data), encodedBase64...), `,"format":"msgpack"`...)
	}
	switch media := mediaType(m); {
	case !utf8.Valid(m.Data):
	case IsText(m):
		return jsontext.AppendString(dst, string(m.Data))
	case isJSON(media) || (media == "" && looksLikeJSON(m.Data)):
		if out, ok := appendCompact(dst, m.Data); ok {
			return out
		}
	}
	return append(appendBase64(dst, m.Data), encodedBase64...)
}

// mediaType is the content type without its parameters, in lower case.
func mediaType(m *codec.Message) string {
	value, _ := m.Headers.Get(codec.HeaderContentType)
	media, _, _ := strings.Cut(value, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// looksLikeJSON is for data that nobody declared: an object or an array counts,
// while 123 or "x" may as well be anything else.
func looksLikeJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 0 && (data[0] == '{' || data[0] == '[')
}

// appendCompact appends JSON on one line, its numbers and strings as they are.
func appendCompact(dst, data []byte) ([]byte, bool) {
	b := bytes.NewBuffer(dst)
	if json.Compact(b, data) != nil {
		return dst, false
	}
	return b.Bytes(), true
}

func appendBase64(dst, data []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// IsText tells whether the data of a message are declared as text.
func IsText(m *codec.Message) bool { return strings.HasPrefix(mediaType(m), "text/") }
