package topology

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// source is a file that was read.
type source struct {
	name  string
	lines [][]byte
}

// place is where a value stands, so that a place within it can be told.
type place struct {
	Position
	style    yaml.Style
	source   *source
	replaced bool // it has values of the environment in it
}

func (d *decoder) place(n *yaml.Node) place {
	_, replaced := d.raw[n]
	return place{Position{d.source.name, n.Line, n.Column}, n.Style, d.source, replaced}
}

// find is where a value stands, or what is around it.
func (d *Document) find(path string) place {
	for {
		if p, ok := d.places[path]; ok {
			return p
		}
		cut := strings.LastIndexByte(path, '.')
		if cut < 0 {
			return d.places[""]
		}
		path = path[:cut]
	}
}

// at is the position of a place in the value, from 1. Where what is written and what was read cannot be laid side by side, it is
// that of the value.
func (p place) at(line, column int) Position {
	at := p.Position
	switch {
	case line < 1 || p.replaced || p.style&yaml.FoldedStyle != 0:
	case p.style&yaml.LiteralStyle != 0: // begins in the next line; each line of it is one of the value
		if text := p.source.lines; at.Line < len(text) {
			indent := len(text[at.Line]) - len(bytes.TrimLeft(text[at.Line], " "))
			at.Line, at.Column = at.Line+line, indent+column
		}
	case line == 1:
		if p.style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			column++
		}
		at.Column += column - 1
	}
	return at
}
