package stage

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decodeJSON reads one value. Integers stay integers as far as 64 bits hold them. Numbers are int and float64, so that expressions need
// not tell more apart.
func decodeJSON(data []byte) (v any, err error) {
	p := parser{text: string(data)}
	if v, ok := p.value(0); ok && p.ended() {
		return v, nil
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	v = nil
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&v)
	return plain(v), err
}

// parser reads what package json would read, without reflection and with one allocation for all texts. What is rare, or an error,
// it leaves to that package: ok is false.
type parser struct {
	text string
	at   int
}

// maxNested is how deep values are that a parser reads.
const maxNested = 100

// next is the byte behind white space, where the parser then stands; 0 at the end.
func (p *parser) next() byte {
	for ; p.at < len(p.text); p.at++ {
		if c := p.text[p.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

func (p *parser) ended() bool {
	p.next()
	return p.at == len(p.text)
}

func (p *parser) value(depth int) (v any, ok bool) {
	switch c := p.next(); {
	case depth > maxNested:
		return nil, false
	case c == '"':
		return p.string()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == '{':
		return p.object(depth + 1)
	case c == '[':
		return p.array(depth + 1)
	case c == 't':
		return true, p.word("true")
	case c == 'f':
		return false, p.word("false")
	case c == 'n':
		return nil, p.word("null")
	}
	return nil, false
}

func (p *parser) word(word string) bool {
	ok := strings.HasPrefix(p.text[p.at:], word)
	p.at += len(word)
	return ok
}

func (p *parser) object(depth int) (any, bool) {
	m := map[string]any{}
	p.at++
	if p.next() == '}' {
		p.at++
		return m, true
	}
	for {
		if p.next() != '"' {
			return nil, false
		}
		key, ok := p.string()
		if !ok || p.next() != ':' {
			return nil, false
		}
		p.at++
		v, ok := p.value(depth)
		if !ok {
			return nil, false
		}
		m[key] = v
		c := p.next()
		p.at++
		switch c {
		case '}':
			return m, true
		case ',':
		default:
			return nil, false
		}
	}
}

func (p *parser) array(depth int) (any, bool) {
	all := []any{}
	p.at++
	if p.next() == ']' {
		p.at++
		return all, true
	}
	for {
		v, ok := p.value(depth)
		if !ok {
			return nil, false
		}
		all = append(all, v)
		c := p.next()
		p.at++
		switch c {
		case ']':
			return all, true
		case ',':
		default:
			return nil, false
		}
	}
}

func (p *parser) string() (s string, ok bool) {
	begin, escaped, ascii := p.at+1, false, true
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			s = p.text[begin:p.at]
			p.at++
			if escaped {
				err := json.Unmarshal([]byte(p.text[begin-1:p.at]), &s)
				return s, err == nil
			}
			return s, ascii || utf8.ValidString(s)
		case c == '\\':
			escaped = true
			p.at++
		case c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

func (p *parser) number() (any, bool) {
	begin := p.at
	if p.text[p.at] == '-' {
		p.at++
	}
	whole := p.digits()
	if whole == 0 || whole > 1 && p.text[p.at-whole] == '0' {
		return nil, false
	}
	integer := true
	if p.at < len(p.text) && p.text[p.at] == '.' {
		p.at++
		if integer = false; p.digits() == 0 {
			return nil, false
		}
	}
	if p.at < len(p.text) && p.text[p.at]|0x20 == 'e' {
		if p.at++; p.at < len(p.text) && (p.text[p.at] == '+' || p.text[p.at] == '-') {
			p.at++
		}
		if integer = false; p.digits() == 0 {
			return nil, false
		}
	}
	if text := p.text[begin:p.at]; integer {
		n, err := strconv.Atoi(text)
		return n, err == nil
	} else {
		f, err := strconv.ParseFloat(text, 64)
		return plain(f), err == nil
	}
}

// digits passes over digits, and counts them.
func (p *parser) digits() int {
	begin := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.at - begin
}

// encodeJSON is json.Marshal, without reflection for the values that expressions mostly come to.
func encodeJSON(v any) ([]byte, error) { return appendJSON(make([]byte, 0, 128), v) }

func appendJSON(b []byte, v any) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, x), nil
	case int:
		return strconv.AppendInt(b, int64(x), 10), nil
	case float64:
		if size := math.Abs(x); size < 1e21 && (size >= 1e-6 || size == 0) {
			return strconv.AppendFloat(b, x, 'f', -1, 64), nil
		}
	case string:
		return appendText(b, x)
	case map[string]any:
		if x != nil {
			return appendObject(b, x)
		}
	case []any:
		if x != nil {
			return appendArray(b, x)
		}
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

func appendObject(b []byte, m map[string]any) (_ []byte, err error) {
	var few [16]string
	keys := few[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendText(b, key); err != nil {
			return nil, err
		}
		if b, err = appendJSON(append(b, ':'), m[key]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendArray(b []byte, all []any) (_ []byte, err error) {
	b = append(b, '[')
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendText(b []byte, s string) ([]byte, error) {
	ascii, escaped := true, false
	for i := range len(s) {
		c := s[i]
		ascii = ascii && c < utf8.RuneSelf
		escaped = escaped || c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
	}
	if escaped || !ascii && (!utf8.ValidString(s) || strings.ContainsAny(s, "\u2028\u2029")) {
		text, err := json.Marshal(s)
		return append(b, text...), err
	}
	return append(append(append(b, '"'), s...), '"'), nil
}

// plain makes the types of numbers few: int and float64.
func plain(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(string(x)); err == nil {
			return n
		}
		f, _ := x.Float64()
		return plain(f)
	case int64:
		return int(x)
	case uint64:
		if x <= math.MaxInt {
			return int(x)
		}
		return float64(x)
	case float32:
		return plain(float64(x))
	case float64:
		if n := int(x); math.Abs(x) < 1e15 && float64(n) == x {
			return n
		}
	case []byte:
		return string(x)
	case []any:
		for i := range x {
			x[i] = plain(x[i])
		}
	case map[string]any:
		for k, e := range x {
			x[k] = plain(e)
		}
	}
	return v
}
