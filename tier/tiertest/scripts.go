package tiertest

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Source is a script as it stands in its file.
type Source struct {
	Name   string
	Text   string
	Header []string // the comment that it opens with, without "-- "
	Code   string   // without comments
}

// Sources are all scripts of directories by name; a new one is found without being told.
func Sources(t testing.TB, dirs ...string) map[string]Source {
	t.Helper()
	all := map[string]Source{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			s := Source{Name: strings.TrimSuffix(filepath.Base(file), ".lua"), Text: string(text)}
			lines := strings.Split(s.Text, "\n")
			i := 1
			for ; i < len(lines) && strings.HasPrefix(lines[i], "-- "); i++ {
				s.Header = append(s.Header, lines[i][3:])
			}
			for _, line := range lines[i:] {
				code, _, _ := strings.Cut(line, "--")
				s.Code += code + "\n"
			}
			require.NotContains(t, all, s.Name)
			all[s.Name] = s
		}
	}
	return all
}

// Param is an input as the header documents it: "KEYS[1] log  STREAM", "ARGV[4..] entries  ids".
type Param struct {
	Index int
	Rest  bool // and those that follow
	Name  string
	Text  string
}

var paramLine = regexp.MustCompile(`^(KEYS|ARGV)\[(\d+)(\.\.)?\]\s+(\S.*)$`)

// Params are the inputs of KEYS, or of ARGV, in their order.
func (s Source) Params(array string) (params []Param) {
	for _, line := range s.Header {
		m := paramLine.FindStringSubmatch(line)
		if m == nil || m[1] != array {
			continue
		}
		index, _ := strconv.Atoi(m[2])
		name, text, _ := strings.Cut(m[4], " ")
		params = append(params, Param{Index: index, Rest: m[3] != "", Name: name, Text: strings.TrimSpace(text)})
	}
	return params
}

// Unlooked: the key only says which node runs the script.
func (p Param) Unlooked() bool { return strings.Contains(p.Text, "not looked at") }

// CheckScripts holds scripts to the rules that each of them has to keep.
func CheckScripts(t *testing.T, all map[string]Source) {
	t.Run("headers", func(t *testing.T) { checkScriptHeaders(t, all) })
	t.Run("locals", func(t *testing.T) { checkScriptLocals(t, all) })
	t.Run("keys", func(t *testing.T) { checkScriptKeysAreDeclared(t, all) })
	t.Run("blocks", func(t *testing.T) { checkScriptBlocks(t, all) })
	t.Run("emptied", func(t *testing.T) { checkScriptEmptied(t, all) })
}

// checkScriptHeaders: each script opens with #!lua and a header of purpose, keys with types, arguments and replies, in
// order and without gaps.
func checkScriptHeaders(t *testing.T, all map[string]Source) {
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			first, _, _ := strings.Cut(s.Text, "\n")
			require.Contains(t, []string{"#!lua", "#!lua flags=allow-oom"}, first)
			require.Regexp(t, `^[A-Z].*[.:]?`, s.Header[0], "purpose")
			require.True(t, slices.ContainsFunc(s.Header, func(l string) bool { return strings.HasPrefix(l, "Replies ") }), "Replies")
			require.NotEmpty(t, s.Params("KEYS"))
			for _, array := range []string{"KEYS", "ARGV"} {
				params := s.Params(array)
				for i, p := range params {
					require.Equal(t, i+1, p.Index, array)
					require.True(t, !p.Rest || i == len(params)-1, "%s[%d..] is not the last", array, p.Index)
					if array == "KEYS" && !p.Unlooked() {
						require.Regexp(t, `^(STREAM|HASH|STRING|ZSET|LIST|CHANNEL|ANY)\b`, p.Text)
					}
				}
			}
		})
	}
}

var (
	localLine = regexp.MustCompile(`(?m)^local ([\w, ]+) = (.*(?:KEYS|ARGV)\[\d+\].*)$`)
	input     = regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`)
	use       = regexp.MustCompile(`\b(KEYS|ARGV)(\[[^\]]*\])?`)
)

// checkScriptLocals: one local per input, named as in the header; else only the lists at the ends of KEYS and ARGV are
// walked.
func checkScriptLocals(t *testing.T, all map[string]Source) {
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			locals := map[string]string{} // KEYS[1] -> name
			code := localLine.ReplaceAllStringFunc(s.Code, func(line string) string {
				m := localLine.FindStringSubmatch(line)
				names := strings.Split(m[1], ", ")
				inputs := input.FindAllString(m[2], -1)
				if strings.Contains(m[2], "redis.") || strings.Contains(m[2], "unpack(") {
					return line // not one of those that name inputs
				}
				require.Len(t, inputs, len(names), line)
				for i, in := range inputs {
					require.NotContains(t, locals, in)
					locals[in] = names[i]
				}
				return ""
			})
			want := map[string]string{}
			tails := map[string]int{}
			for _, array := range []string{"KEYS", "ARGV"} {
				for _, p := range s.Params(array) {
					if p.Rest {
						tails[array] = p.Index
					} else if !p.Unlooked() {
						want[fmt.Sprintf("%s[%d]", array, p.Index)] = p.Name
					}
				}
			}
			require.Equal(t, want, locals)
			for _, m := range use.FindAllStringSubmatch(code, -1) {
				require.NotZero(t, tails[m[1]], "%s: outside its local, and the header has no list", m[0])
				if index, err := strconv.Atoi(strings.Trim(m[2], "[]")); err == nil {
					require.Equal(t, tails[m[1]], index, "%s: outside its local", m[0])
				}
			}
		})
	}
}

var (
	call        = regexp.MustCompile(`\b(?:call|redis\.p?call)\(([^)]*)`)
	subcommands = []string{"XINFO", "XGROUP"}
	unkeyed     = []string{"TIME", "SCAN"}
	tableStart  = regexp.MustCompile(`local (\w+) = \{(\w+),`)
	listed      = regexp.MustCompile(`local (\w+(?:, \w+)*) = KEYS\[`) // of the list of keys
)

// checkScriptKeysAreDeclared: what stands where a command has its key is one of the locals of KEYS, so none is built.
func checkScriptKeysAreDeclared(t *testing.T, all map[string]Source) {
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			keys := map[string]bool{}
			for _, p := range s.Params("KEYS") {
				keys[p.Name] = true
			}
			for _, m := range listed.FindAllStringSubmatch(s.Code, -1) {
				for _, name := range strings.Split(m[1], ", ") {
					keys[name] = true
				}
			}
			tables := map[string]bool{} // argument lists that start with a key
			for _, m := range tableStart.FindAllStringSubmatch(s.Code, -1) {
				tables["unpack("+m[1]] = keys[m[2]]
			}
			calls := call.FindAllStringSubmatch(s.Code, -1)
			require.True(t, len(calls) > 0 || strings.Contains(s.Code, "acl_check_cmd"), "it does nothing")
			for _, m := range calls {
				args := strings.Split(m[1], ", ")
				command := strings.Trim(args[0], "'")
				require.Regexp(t, `^[A-Z]+$`, command, m[0])
				if slices.Contains(unkeyed, command) {
					continue
				}
				at := 1
				if i := slices.Index(args, "'STREAMS'"); i > 0 {
					at = i + 1
				} else if slices.Contains(subcommands, command) {
					at = 2
				}
				require.Greater(t, len(args), at, m[0])
				require.True(t, keys[args[at]] || tables[args[at]] || args[at] == "KEYS[i]", "%s: %s is no declared key", m[0], args[at])
			}
		})
	}
}

var marked = regexp.MustCompile(`(?s)\n-- (\w+) begin.*?\n-- (\w+) end\n`)

// checkScriptBlocks: scripts have no includes, so lines that several need stand in each, between "-- name begin" and
// "-- name end": the same bytes.
func checkScriptBlocks(t *testing.T, all map[string]Source) {
	blocks := map[string]Source{} // by name: where it was seen first
	text := map[string]string{}
	users := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		found := marked.FindAllStringSubmatch(s.Text, -1)
		require.Len(t, found, strings.Count(s.Text, " begin:"), "%s: a block that does not end", name)
		for _, m := range found {
			require.Equal(t, m[1], m[2], name)
			if users[m[1]]++; users[m[1]] == 1 {
				blocks[m[1]], text[m[1]] = s, m[0]
			}
			require.Equal(t, text[m[1]], m[0], "%s in %s and in %s", m[1], blocks[m[1]].Name, name)
		}
	}
	for name, n := range users {
		require.Greater(t, n, 1, "%s stands in one script only", name)
	}
}

// Runs matches the call of the script.
func (s Source) Runs() func(cmd []string) bool {
	sum := sha1.Sum([]byte(s.Text))
	sha := hex.EncodeToString(sum[:])
	return func(cmd []string) bool {
		return cmd[0] == "EVALSHA" && cmd[1] == sha || cmd[0] == "EVAL" && cmd[1] == s.Text
	}
}
