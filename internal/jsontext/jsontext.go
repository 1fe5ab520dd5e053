// Package jsontext writes and checks JSON text by text, where no value of Go stands behind it.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrUTF8 is of a text in another encoding.
var ErrUTF8 = errors.New("not valid UTF-8: convert the file first, as with iconv")

// AppendString appends s as a JSON string, with escapes where JSON needs them and nowhere else; what is not UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return appendEscaped(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

func appendEscaped(dst []byte, s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string cannot fail
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte{'\n'})...)
}

// Check says why a text is not one JSON value in UTF-8.
func Check(text []byte) error {
	if json.Valid(text) {
		if !utf8.Valid(text) {
			return ErrUTF8
		}
		return nil
	}
	var v json.RawMessage
	return Invalid(json.Unmarshal(text, &v))
}

// Invalid is a decoder's error with the place where a text ends to be JSON.
func Invalid(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	}
	return fmt.Errorf("not JSON: %w", err)
}
