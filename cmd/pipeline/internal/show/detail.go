package show

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/echomq/pipeline/codec"
)

// Detail is all of a message for a person: a line for each part, JSON data indented.
// Like Line it holds no control character.
func Detail(r *codec.Record) string {
	var d detail
	d.part("id", r.ID.String())
	d.part("entry", r.Position.String())
	d.part("time", Time(r.Addr.Time()))
	d.part("type", r.Type)
	d.part("key", r.Key)
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, h.Key+": "+h.Value)
	}
	d.part("headers", headers...)
	if r.Foreign() || r.Err != nil {
		var fields []string
		for i := 0; i+1 < len(r.Fields); i += 2 {
			fields = append(fields, r.Fields[i]+": "+r.Fields[i+1])
		}
		d.part("fields", fields...)
	} else {
		d.part("data", indented(&r.Message)...)
	}
	if r.Err != nil {
		d.part("error", r.Err.Error())
	}
	return d.text.String()
}

type detail struct{ text strings.Builder }

// part adds lines under a name; none for what is empty.
func (d *detail) part(name string, lines ...string) {
	for _, line := range lines {
		if line == "" {
			continue
		}
		d.text.WriteString(name + strings.Repeat(" ", 9-len(name)) + Printable(line) + "\n")
		name = ""
	}
}

// indented is the data over several lines. Base64 says that it is.
func indented(m *codec.Message) []string {
	var b bytes.Buffer
	data := appendData(nil, m)
	if value, encoded := bytes.CutSuffix(data, []byte(encodedBase64)); encoded {
		return []string{string(value) + " (base64)"}
	}
	if json.Indent(&b, data, "", "  ") != nil {
		return []string{string(data)}
	}
	return strings.Split(b.String(), "\n")
}
