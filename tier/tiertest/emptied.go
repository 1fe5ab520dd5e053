package tiertest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

// checkScriptEmptied: while a slot moves, a cluster ends a script halfway that touches a key which it has emptied. So one
// that may is marked to run at rest only. Any other takes something away from a key outside of loops and functions, and
// touches the key no more, behind that, up to where it returns, or in a function.
func checkScriptEmptied(t *testing.T, all map[string]Source) {
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			again := touchedAgain(strings.Split(s.Code, "\n"))
			if slices.Contains(s.Header, strings.TrimPrefix(tier.AtRestLine, "-- ")) {
				require.NotEmpty(t, again, "it has no need to wait until its slot is at rest")
				return
			}
			require.Empty(t, again, "what empties a key comes last, or %q into the header", tier.AtRestLine)
		})
	}
}

var (
	emptying = regexp.MustCompile(`^(DEL|UNLINK|HDEL|ZREM\w*|SREM|\w*POP\w*|LREM|LTRIM|\w*MOVE|RENAME\w*|GETDEL|GETEX|P?EXPIRE\w*|\w+STORE)$`)
	several  = []string{"DEL", "UNLINK"} // keys
	opened   = regexp.MustCompile(`\b(?:call|redis\.p?call)\('([A-Z]+)'`)
	quoted   = regexp.MustCompile(`'[^']*'`)
	word     = regexp.MustCompile(`^\w+$`)
	block    = regexp.MustCompile(`\b(for|while|repeat|function)\b`)
	function = regexp.MustCompile(`\bfunction\b`)
)

// touch is a call in a script's code.
type touch struct {
	line    int
	command string
	args    []string // without what is quoted
}

// key says whether the call may touch it, by its name.
func (c touch) key(name string) bool {
	return slices.Contains(c.args, name) || len(c.args) > 0 && !word.MatchString(c.args[0])
}

func touches(lines []string) (calls []touch) {
	for i, line := range lines {
		for _, at := range opened.FindAllStringSubmatchIndex(line, -1) {
			args := quoted.ReplaceAllString(line[at[1]:], "")
			depth := 0
			if end := strings.IndexFunc(args, func(r rune) bool {
				depth += strings.Count("(", string(r)) - strings.Count(")", string(r))
				return depth < 0
			}); end >= 0 {
				args = args[:end]
			}
			c := touch{line: i, command: line[at[2]:at[3]]}
			for arg := range strings.SplitSeq(args, ",") {
				if arg = strings.TrimSpace(arg); arg != "" {
					c.args = append(c.args, arg)
				}
			}
			calls = append(calls, c)
		}
	}
	return calls
}

// touchedAgain are calls that may touch a key which one before them may have emptied.
func touchedAgain(lines []string) (again []string) {
	calls := touches(lines)
	for i, c := range calls {
		if !emptying.MatchString(c.command) {
			continue
		}
		gone := c.args[:1]
		if slices.Contains(several, c.command) {
			gone = c.args
		}
		if within(lines, c.line, block) {
			again = append(again, fmt.Sprint(c, " again and again"))
		}
		end := returns(lines, c.line)
		for k, other := range calls {
			later := k > i && other.line <= end || within(lines, other.line, function)
			if later && k != i && slices.ContainsFunc(gone, other.key) {
				again = append(again, fmt.Sprint(c, " then ", other))
			}
		}
	}
	return again
}

// Empties says whether the script takes away what may be the last of a key.
func (s Source) Empties() bool {
	return slices.ContainsFunc(touches(strings.Split(s.Code, "\n")), func(c touch) bool { return emptying.MatchString(c.command) })
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// within says whether a line stands in something, or opens it.
func within(lines []string, at int, what *regexp.Regexp) bool {
	if what.MatchString(lines[at]) {
		return true
	}
	for i, depth := at, indent(lines[at]); i >= 0 && depth > 0; i-- {
		if strings.TrimSpace(lines[i]) != "" && indent(lines[i]) < depth {
			if depth = indent(lines[i]); what.MatchString(lines[i]) {
				return true
			}
		}
	}
	return false
}

// returns is the last line that may run after one.
func returns(lines []string, at int) int {
	depth := indent(lines[at])
	for i := at; i < len(lines); i++ {
		text := strings.TrimSpace(lines[i])
		if text != "" && indent(lines[i]) < depth {
			break
		}
		if indent(lines[i]) == depth && strings.HasPrefix(text, "return") {
			return i
		}
	}
	return len(lines)
}
