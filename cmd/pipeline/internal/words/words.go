// Package words splits a command line into its words, as a shell would, or makes one of
// them, and does nothing else that a shell does.
package words

import (
	"errors"
	"strings"
	"unicode"
)

// Errors of Split.
var (
	ErrQuote = errors.New("a quote is not closed")
	ErrSlash = errors.New(`a \ stands at the end`)
)

// Split splits s at spaces, tabs and newlines. 'Single quotes' keep everything,
// "double quotes" keep everything but \" and \\, a \ outside of quotes keeps the
// next character. There are no variables, no patterns, no operators.
func Split(s string) ([]string, error) {
	p := splitter{rest: s}
	for p.rest != "" {
		if err := p.step(); err != nil {
			return nil, err
		}
	}
	p.end()
	return p.words, nil
}

type splitter struct {
	rest  string
	words []string
	word  strings.Builder
	open  bool // a word has begun; it may be empty, as '' is
}

func (p *splitter) end() {
	if p.open {
		p.words = append(p.words, p.word.String())
		p.word.Reset()
		p.open = false
	}
}

func (p *splitter) take() byte {
	c := p.rest[0]
	p.rest = p.rest[1:]
	return c
}

func (p *splitter) step() error {
	switch c := p.take(); c {
	case ' ', '\t', '\n', '\r':
		p.end()
		return nil
	case '\'', '"':
		p.open = true
		return p.quoted(c)
	case '\\':
		if p.rest == "" {
			return ErrSlash
		}
		c = p.take()
		fallthrough
	default:
		p.open = true
		p.word.WriteByte(c)
		return nil
	}
}

// quoted takes what stands up to the closing quote.
func (p *splitter) quoted(quote byte) error {
	for p.rest != "" {
		c := p.take()
		switch {
		case c == quote:
			return nil
		case c == '\\' && quote == '"' && p.rest != "" && (p.rest[0] == '"' || p.rest[0] == '\\'):
			c = p.take()
		}
		p.word.WriteByte(c)
	}
	return ErrQuote
}

// Join makes a command line that Split, or a shell, splits into these words.
func Join(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" || strings.ContainsFunc(w, special) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// special tells whether a character may mean something else than itself.
func special(c rune) bool {
	return c >= 0x80 || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("@%_+=:,./-", c)
}
