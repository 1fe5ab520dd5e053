package stage

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// The library bounds what elements an expression makes. It bounds neither how often its loops go round nor the text that it
// puts together, so the meter does, with calls that the tree is given when it is compiled:
//
//   - the body of each loop is metered: a round costs 1, or half the bytes of the message where the body goes through something
//     else than its own element: so many elements it may have;
//   - a + that may be of texts, and the functions that make texts, charge the length of what they make before it is made.
//
// What could cost more than its arguments' size at once (repeat, uniq) is not there.
const (
	meterName = "_meter"
	stepName  = "_step"
	workName  = "_work"
	addName   = "_add"
	chainName = "_concat"
)

// meter counts what an expression has cost on a message.
type meter struct{ spent, unit int }

func (m *meter) begin(size int) { m.spent, m.unit = 0, 1+size/2 }

func (m *meter) charge(n int) error {
	if m.spent += n; m.spent > MaxSteps {
		return ErrCost
	}
	return nil
}

// metered are the options that give a tree its meter.
func metered() []expr.Option {
	options := []expr.Option{
		expr.Function(stepName, func(a ...any) (any, error) { return a[1], a[0].(*meter).charge(1) }, new(func(*meter, any) any)),
		expr.Function(workName, func(a ...any) (any, error) {
			m := a[0].(*meter)
			return a[1], m.charge(m.unit)
		}, new(func(*meter, any) any)),
		expr.Function(addName, add, new(func(*meter, any, any) any)),
		expr.Function(chainName, add, new(func(*meter, string, string) string)),
	}
	for _, name := range []string{"repeat", "uniq", "splitAfter"} {
		options = append(options, expr.DisableBuiltin(name))
	}
	for name, f := range makers {
		options = append(options, expr.DisableBuiltin(name), expr.Function("_"+name, f.call, f.as))
	}
	return append(options, expr.Patch(meterPatch{}))
}

func add(a ...any) (any, error) {
	x, ok := a[1].(string)
	y, also := a[2].(string)
	if !ok || !also {
		return runtime.Add(a[1], a[2]), nil
	}
	if err := a[0].(*meter).charge(len(x) + len(y)); err != nil {
		return nil, err
	}
	return x + y, nil
}

// makers are the functions that make texts, as the library's are but for their charge.
var makers = map[string]struct {
	call func(a ...any) (any, error)
	as   any
}{
	"split": {func(a ...any) (any, error) {
		s, by := a[1].(string), a[2].(string)
		if err := a[0].(*meter).charge(len(s) + 16*strings.Count(s, by)); err != nil {
			return nil, err
		}
		return strings.Split(s, by), nil
	}, new(func(*meter, string, string) []string)},
	"join": {func(a ...any) (any, error) {
		v := reflect.ValueOf(a[1])
		if v.Kind() != reflect.Slice {
			return nil, fmt.Errorf("cannot join %s: want an array of texts", typeName(a[1]))
		}
		parts, size, by := make([]string, v.Len()), 0, a[2].(string)
		for i := range parts {
			s, ok := v.Index(i).Interface().(string)
			if !ok {
				return nil, fmt.Errorf("cannot join %s, element %d: want texts", typeName(v.Index(i).Interface()), i)
			}
			parts[i], size = s, size+len(s)+len(by)
		}
		if err := a[0].(*meter).charge(size); err != nil {
			return nil, err
		}
		return strings.Join(parts, by), nil
	}, new(func(*meter, any, string) string)},
	"replace": {func(a ...any) (any, error) {
		s, from, to := a[1].(string), a[2].(string), a[3].(string)
		if err := a[0].(*meter).charge(len(s) + strings.Count(s, from)*len(to)); err != nil {
			return nil, err
		}
		return strings.ReplaceAll(s, from, to), nil
	}, new(func(*meter, string, string, string) string)},
	"toJSON": {func(a ...any) (any, error) {
		b, err := json.Marshal(a[1])
		if err == nil {
			err = a[0].(*meter).charge(len(b)) // six times as long as a text in it, at most
		}
		return string(b), err
	}, new(func(*meter, any) string)},
	"toBase64": {func(a ...any) (any, error) {
		s := a[1].(string)
		return base64.StdEncoding.EncodeToString([]byte(s)), a[0].(*meter).charge(2 * len(s))
	}, new(func(*meter, string) string)},
}

// meterPatch puts the meter into a tree.
type meterPatch struct{}

// Visit implements ast.Visitor.
func (meterPatch) Visit(node *ast.Node) {
	metered := func(name string, args ...ast.Node) *ast.CallNode {
		return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: append([]ast.Node{&ast.IdentifierNode{Value: meterName}}, args...)}
	}
	switch n := (*node).(type) {
	case *ast.PredicateNode:
		if isMetered(n.Node) {
			return
		}
		name := stepName
		if costly(n.Node) {
			name = workName
		}
		body := metered(name, n.Node)
		body.SetLocation(n.Node.Location())
		n.Node = body
	case *ast.BinaryNode:
		if n.Operator != "+" || isNumber(n.Left) || isNumber(n.Right) {
			return
		}
		left, right := n.Left.Type().Kind(), n.Right.Type().Kind()
		switch {
		case left == reflect.String && right == reflect.String:
			ast.Patch(node, metered(chainName, n.Left, n.Right))
		case left == reflect.Interface || right == reflect.Interface:
			ast.Patch(node, metered(addName, n.Left, n.Right))
		}
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			if _, ok := makers[callee.Value]; ok {
				ast.Patch(node, metered("_"+callee.Value, n.Arguments...))
			}
		}
	}
}

func isMetered(n ast.Node) bool {
	call, ok := n.(*ast.CallNode)
	if !ok {
		return false
	}
	callee, ok := call.Callee.(*ast.IdentifierNode)
	return ok && (callee.Value == stepName || callee.Value == workName)
}

func isNumber(n ast.Node) bool {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return true
	}
	return false
}

// costly tells whether a body goes through something else than its own element, of which all rounds together see each once.
func costly(n ast.Node) bool {
	f := &costFinder{}
	ast.Walk(&n, f)
	return f.found
}

type costFinder struct{ found bool }

var cheap = map[string]bool{"len": true, "abs": true, "ceil": true, "floor": true, "round": true, "int": true, "float": true, "first": true, "last": true, "get": true, "type": true}

// Visit implements ast.Visitor.
func (f *costFinder) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		f.found = f.found || !cheap[n.Name] && !own(n.Arguments...)
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); !ok || callee.Value != stepName && callee.Value != addName && callee.Value != chainName {
			f.found = f.found || !own(n.Arguments...)
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "matches", "contains", "startsWith", "endsWith", "in":
			f.found = f.found || !own(n.Left, n.Right)
		case "==", "!=":
			f.found = f.found || !own(n.Left) && !own(n.Right)
		}
	}
}

// own nodes are constants, and parts of the loop's element.
func own(nodes ...ast.Node) bool {
	for _, n := range nodes {
		for {
			member, ok := n.(*ast.MemberNode)
			if !ok {
				break
			}
			n = member.Node
		}
		switch n := n.(type) {
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NilNode, *ast.StringNode, *ast.ConstantNode, *ast.ArrayNode:
		case *ast.PointerNode:
			if n.Name != "" { // #acc grows
				return false
			}
		case *ast.IdentifierNode:
			if n.Value != meterName {
				return false
			}
		default:
			return false
		}
	}
	return true
}
