package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is a place in a document. Line and column count from 1, the column in bytes. The zero value is that of a document
// made in Go.
type Position struct {
	File         string `json:"file,omitempty"`
	Line, Column int
}

func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one thing that is wrong with a document.
type Problem struct {
	Position
	// Path names the value: "stages.strong.filter".
	Path string
	What string // what is wrong with it
	Do   string // what to write

	line, column int  // of the place in the value that is meant, from 1; 0: all of it
	part         bool // a source, stage, projection or sink says it of its own declaration
}

func (p *Problem) Error() string {
	text := p.Path
	if at := p.Position.String(); at != "" {
		text = strings.TrimSuffix(at+": "+p.Path, ": ")
	}
	text += ": " + p.What
	if p.Do != "" {
		text += "; " + p.Do
	}
	return text
}

// Problems are all that is wrong with a document, in the order of its lines.
type Problems []*Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// err is the problems as an error: nil, when there are none.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path), cmp.Compare(a.What, b.What))
	})
	return slices.CompactFunc(p, func(a, b *Problem) bool { return *a == *b })
}

func (p *Problems) add(path, do, format string, args ...any) {
	*p = append(*p, &Problem{Path: path, What: fmt.Sprintf(format, args...), Do: do})
}

// follows tells whether a problem is there only because a value could not be read: what a part says of that value, of what stands
// below it, and of what it is a field of.
func (p *Problem) follows(unread *Problem) bool {
	if !p.part || unread.Path == "" {
		return false
	}
	parent := unread.Path[:max(0, strings.LastIndexByte(unread.Path, '.'))]
	return p.Path == parent || p.Path == unread.Path || strings.HasPrefix(p.Path, unread.Path+".")
}
