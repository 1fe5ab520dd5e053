package stage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// env is what expressions see of a message. It is used again for the next one, by one goroutine.
type env struct {
	record *codec.Record
	vars   map[string]any
	vm     vm.VM
	meter  meter
	read   bool      // data is decoded
	filled variables // that are set
	err    error
	out    []tier.Output // of the message
}

func newEnv() *env {
	e := &env{vars: make(map[string]any, 8)}
	e.vars[meterName], e.vm.MemoryBudget = &e.meter, MaxMade
	return e
}

// set turns to another message. What a program needs of it is decoded when it is asked for, once.
func (e *env) set(r *codec.Record) {
	e.record, e.read, e.filled, e.err = r, false, 0, nil
	e.vars["joined"], e.vars["state"], e.out = nil, nil, e.out[:0]
}

// fill sets variables.
func (e *env) fill(of variables) error {
	if of&varData != 0 {
		if err := e.decode(); err != nil {
			return err
		}
	}
	r := e.record
	if of&varID != 0 {
		e.vars["id"] = r.ID.String()
	}
	if of&varKey != 0 {
		e.vars["key"] = r.Key
	}
	if of&varType != 0 {
		e.vars["type"] = r.Type
	}
	if of&varTime != 0 {
		e.vars["time"] = appended(r)
	}
	if of&varHeaders != 0 {
		headers := make(map[string]string, len(r.Headers))
		for _, h := range r.Headers {
			headers[h.Key] = h.Value
		}
		e.vars["headers"] = headers
	}
	e.filled |= of
	return nil
}

// appended is when a message was appended.
func appended(r *codec.Record) time.Time { return time.UnixMilli(int64(r.Addr.Ms)).UTC() }

func (e *env) decode() error {
	if !e.read {
		e.vars["data"], e.err = decodeData(&e.record.Message)
		e.read = true
	}
	return e.err
}

// data is the payload as a value; nil when it cannot be read.
func (e *env) data() any {
	_ = e.decode()
	return e.vars["data"]
}

// run runs a program. A panic of the machine is the program's error.
func (e *env) run(p *program) (any, error) {
	if missing := p.sees &^ e.filled; missing != 0 {
		if err := e.fill(missing); err != nil {
			return nil, err
		}
	}
	e.meter.begin(len(e.record.Data))
	return e.vm.Run(p.code, e.vars)
}

// lookUp is data.a.b.
func (e *env) lookUp(field []string) (any, error) {
	if err := e.decode(); err != nil {
		return nil, err
	}
	v := e.vars["data"]
	for i, name := range field {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("cannot fetch %s from %s", name, strings.Join(append([]string{"data"}, field[:i]...), ".")+", which is "+typeName(v))
		}
		v = m[name]
	}
	return v, nil
}

// fieldOf is the path of an expression that is nothing but fields of data.
func fieldOf(n ast.Node) (path []string) {
	for {
		switch m := n.(type) {
		case *ast.IdentifierNode:
			if m.Value != "data" {
				return nil
			}
			for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
				path[i], path[j] = path[j], path[i]
			}
			return path
		case *ast.MemberNode:
			name, ok := m.Property.(*ast.StringNode)
			if !ok || m.Optional || m.Method {
				return nil
			}
			path, n = append(path, name.Value), m.Node
		default:
			return nil
		}
	}
}

// errData says that a payload cannot be read as what it says it is.
var errData = errors.New("the data cannot be read")

// decodeData is the value of a payload: of msgpack, of JSON by its content type or its looks; anything else is a text.
func decodeData(m *codec.Message) (any, error) {
	if m.Format == codec.FormatMsgpack {
		dec := msgpack.NewDecoder(bytes.NewReader(m.Data))
		dec.UseLooseInterfaceDecoding(true)
		v, err := dec.DecodeInterface()
		if err != nil {
			return nil, fmt.Errorf("%w as msgpack: %w", errData, err)
		}
		return plain(v), nil
	}
	contentType, said := m.Headers.Get(codec.HeaderContentType)
	if said && !strings.HasPrefix(contentType, "application/json") {
		return string(m.Data), nil
	}
	v, err := decodeJSON(m.Data)
	if err != nil && !said {
		return string(m.Data), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w as JSON: %w", errData, err)
	}
	return v, nil
}

// setData makes a value the payload: a text as it is, anything else as JSON.
func setData(m *codec.Message, v any) error {
	m.Format = codec.FormatBytes
	if s, ok := v.(string); ok {
		m.Data = []byte(s)
		m.Headers.Set(codec.HeaderContentType, "text/plain")
		return nil
	}
	data, err := encodeJSON(v)
	if err != nil {
		return consumer.Permanent(fmt.Errorf("stage: the result is no JSON: %w", err))
	}
	m.Data = data
	m.Headers.Set(codec.HeaderContentType, "application/json")
	return nil
}

// text is a key or a type: a text, or a number in decimal.
func text(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case int:
		return strconv.Itoa(x), nil
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64), nil
	case bool:
		return strconv.FormatBool(x), nil
	case nil:
		return "", errors.New("is nil, want a text or a number")
	}
	return "", fmt.Errorf("is %s, want a text or a number", typeName(v))
}

// moment is a time that an expression came to, or that a watermark has, in Unix milliseconds: one that a calendar has, and to which a
// lateness can be added.
func moment(v any) (int64, error) {
	t, err := unixMilli(v)
	if err == nil && (t < -1<<50 || t > 1<<50) {
		err = fmt.Errorf("%d ms is no time that a calendar has", t)
	}
	return t, err
}

func unixMilli(v any) (int64, error) {
	switch x := v.(type) {
	case time.Time:
		return x.UnixMilli(), nil
	case string:
		t, err := time.Parse(time.RFC3339Nano, x)
		if err != nil {
			return 0, fmt.Errorf("%.64q is no time: want it as 2006-01-02T15:04:05Z, or made by date(text, layout, zone)", x)
		}
		return t.UnixMilli(), nil
	case int:
		return int64(x), nil
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x), nil
		}
	}
	return 0, fmt.Errorf("is %s, want a time, a text as 2006-01-02T15:04:05Z or Unix milliseconds", typeName(v))
}
