package stage

import (
	"fmt"
	"strings"
)

// Problem is one error of a declaration.
type Problem struct {
	// Path leads to the value: names of fields as in YAML, and keys of maps.
	Path []string
	// Line and Column are the place inside an expression, from 1; 0: the problem is the value's as a whole.
	Line, Column int
	// Text says what is wrong and what to write.
	Text string
}

func (p Problem) Error() string {
	if len(p.Path) == 0 && p.Line == 0 {
		return p.Text
	}
	at := ""
	if p.Line > 0 {
		at = fmt.Sprintf(" at %d:%d", p.Line, p.Column)
	}
	return strings.Join(p.Path, ".") + at + ": " + p.Text
}

// Problems are all errors of a declaration, in its order.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return "stage: " + strings.Join(lines, "; ")
}

// Unwrap is each of them.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// Err is nil when there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// finder collects problems below a path.
type finder struct {
	path  []string
	found *Problems
}

// in is the finder below a field.
func (f finder) in(fields ...string) finder {
	return finder{append(f.path[:len(f.path):len(f.path)], fields...), f.found}
}

func (f finder) say(format string, args ...any) {
	*f.found = append(*f.found, Problem{Path: f.path, Text: fmt.Sprintf(format, args...)})
}

// within asks for a number between two bounds, where it is given.
func within[T int | Duration | Size](f finder, v, least, most T) {
	if v != 0 && (v < least || v > most) {
		f.say("%v: want %v to %v", v, least, most)
	}
}
