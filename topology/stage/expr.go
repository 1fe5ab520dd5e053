package stage

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// Expr is an expression of github.com/expr-lang/expr. It sees id, key and type, which are texts, time, which is when the
// message was appended, headers, a map of texts, and data, which is the payload: JSON and msgpack as values, anything else a
// text. In a join it sees joined as well, in a projection state.
//
// What it may cost is bounded, whatever message it is given: see Limits.
type Expr string

// Limits of an expression. The nodes are counted when it is compiled, the rest for each message; what passes one is an
// [EvalError].
const (
	MaxNodes = 500       // parts of an expression
	MaxSteps = 2_000_000 // rounds of all its loops together, see the meter, and bytes of the texts that it makes
	MaxMade  = 1_000_000 // elements of the arrays and maps that it makes
)

// result is what an expression has to come to.
type result uint8

const (
	anyResult result = iota
	boolResult
)

// envTypes is what an expression sees, and of which type.
var envTypes = types.Map{
	"id": types.String, "key": types.String, "type": types.String, "time": types.TypeOf(time.Time{}), "headers": types.TypeOf(map[string]string{}),
	"data": types.Any, "joined": types.Any, "state": types.Any, meterName: types.TypeOf((*meter)(nil)),
}

// program is a compiled expression.
type program struct {
	path  string // of the declaration
	text  Expr
	code  *vm.Program
	want  result
	sees  variables
	field []string // data.a.b, which needs no program; nil: it does
}

// EvalError says that an expression failed on a message, which goes to the stage's dead letters.
type EvalError struct {
	Path string // of the declaration: filter, window.values.top.max
	Expr Expr
	Data string // type of the message's data
	Err  error
}

func (e *EvalError) Error() string {
	return fmt.Sprintf("stage: %s: %.256q: %v (data is %s)", e.Path, string(e.Expr), e.Err, e.Data)
}

// Unwrap is the reason.
func (e *EvalError) Unwrap() error { return e.Err }

// ErrCost says that an expression would cost more than its limits.
var ErrCost = errors.New("costs more than an expression may: make less of it, or put the work into a func or an exec stage")

// compile compiles an expression; the problems have its place.
func compile(path []string, text Expr, want result) (*program, Problems) {
	p := &program{path: strings.Join(path, "."), text: text, want: want}
	options := []expr.Option{
		expr.Env(envTypes), expr.MaxNodes(MaxNodes), expr.DisableBuiltin("now"), // decided again after a crash, it is to come to the same
	}
	if want == boolResult {
		options = append(options, expr.AsBool())
	}
	options = append(options, metered()...)
	code, err := expr.Compile(string(text), options...)
	if err != nil {
		return nil, Problems{problemOf(path, text, err)}
	}
	p.code, p.sees, p.field = code, variablesOf(code.Node()), fieldOf(code.Node())
	return p, nil
}

func problemOf(path []string, text Expr, err error) Problem {
	p := Problem{Path: path, Text: err.Error()}
	at, ok := errors.AsType[*file.Error](err)
	if ok {
		p.Line, p.Column, p.Text = at.Line, at.Column+1, at.Message
	}
	if name, unknown := strings.CutPrefix(p.Text, "unknown name "); unknown {
		whole := name
		if r := []rune(string(text)); at != nil && at.From < len(r) { // order.placed is one text
			rest := string(r[at.From:])
			whole = rest[:len(rest)-len(strings.TrimLeftFunc(rest, func(r rune) bool { return r == '.' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }))]
		}
		p.Text += fmt.Sprintf(": an expression sees id, key, type, time, headers and data: write data.%.64s for a field of it, '%.64s' for the text", name, whole)
	}
	p.Text = strings.Replace(p.Text, "unexpected token EOF", "it ends where more has to come", 1)
	return p
}

// expr checks an expression that may be left out.
func (f finder) expr(field string, text Expr, want result) {
	if text == "" {
		return
	}
	_, problems := compile(f.in(field).path, text, want)
	*f.found = append(*f.found, problems...)
}

// needed checks an expression that may not.
func (f finder) needed(field string, text Expr, want result, what string) {
	if text == "" {
		f.in(field).say("missing: %s", what)
	}
	f.expr(field, text, want)
}

// eval is what the expression comes to on a message.
func (p *program) eval(e *env) (v any, err error) {
	if p.field != nil {
		v, err = e.lookUp(p.field)
	} else {
		v, err = e.run(p)
	}
	if err == nil && p.want == boolResult {
		if _, ok := v.(bool); !ok {
			err = fmt.Errorf("is %s, want true or false", typeName(v))
		}
	}
	if err != nil {
		return nil, p.failed(e, err)
	}
	return v, nil
}

func (p *program) failed(e *env, err error) error {
	if at, ok := errors.AsType[*file.Error](err); ok {
		err = fmt.Errorf("%w at %d:%d", at.Prev, at.Line, at.Column+1)
		if at.Prev == nil {
			err = fmt.Errorf("%s at %d:%d", at.Message, at.Line, at.Column+1)
		}
	}
	return &EvalError{Path: p.path, Expr: p.text, Data: typeName(e.data()), Err: err}
}

// truth is what a condition comes to.
func (p *program) truth(e *env) (bool, error) {
	v, err := p.eval(e)
	if err != nil {
		return false, err
	}
	return v.(bool), nil
}

// typeName names the type of a value as one who writes messages does.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "bool"
	case string:
		return "string"
	case map[string]any:
		return "map"
	case []any:
		return "array"
	case time.Time:
		return "time"
	}
	if k := reflect.TypeOf(v).Kind(); k == reflect.Slice || k == reflect.Array {
		return "array"
	}
	return reflect.TypeOf(v).String()
}
