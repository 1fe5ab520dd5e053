package stage

import "github.com/expr-lang/expr/ast"

// variables are those of a message that a program sees: only they are made.
type variables uint8

const (
	varID variables = 1 << iota
	varKey
	varType
	varTime
	varHeaders
	varData
	varAll variables = 1<<iota - 1
)

var variablesByName = map[string]variables{
	"id": varID, "key": varKey, "type": varType, "time": varTime, "headers": varHeaders, "data": varData, "$env": varAll,
}

// variablesOf are those of a tree.
func variablesOf(n ast.Node) variables {
	f := &variableFinder{varData} // data that cannot be read fails every program
	ast.Walk(&n, f)
	return f.found
}

type variableFinder struct{ found variables }

// Visit implements ast.Visitor.
func (f *variableFinder) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok {
		f.found |= variablesByName[n.Value]
	}
}
