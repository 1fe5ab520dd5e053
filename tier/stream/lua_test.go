package stream_test

import (
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

// luaDirs hold the scripts of package tier, of this one, and of the doctor.
var luaDirs = []string{"../lua", "lua", "../doctor/lua"}

// source is a script as it stands in its file.
type source struct {
	name   string
	text   string
	header []string // the comment that it opens with, without "-- "
	code   string   // without comments
}

// sources are all scripts by name; a new one is found without being told.
func sources(t testing.TB) map[string]source {
	t.Helper()
	all := map[string]source{}
	for _, dir := range luaDirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			s := source{name: strings.TrimSuffix(filepath.Base(file), ".lua"), text: string(text)}
			lines := strings.Split(s.text, "\n")
			i := 1
			for ; i < len(lines) && strings.HasPrefix(lines[i], "-- "); i++ {
				s.header = append(s.header, lines[i][3:])
			}
			for _, line := range lines[i:] {
				code, _, _ := strings.Cut(line, "--")
				s.code += code + "\n"
			}
			require.NotContains(t, all, s.name)
			all[s.name] = s
		}
	}
	return all
}

// param is an input as the header documents it: "KEYS[1] log  STREAM", "ARGV[4..] entries  ids".
type param struct {
	index int
	rest  bool // and those that follow
	name  string
	text  string
}

var paramLine = regexp.MustCompile(`^(KEYS|ARGV)\[(\d+)(\.\.)?\]\s+(\S.*)$`)

func (s source) params(array string) (params []param) {
	for _, line := range s.header {
		m := paramLine.FindStringSubmatch(line)
		if m == nil || m[1] != array {
			continue
		}
		index, _ := strconv.Atoi(m[2])
		name, text, _ := strings.Cut(m[4], " ")
		params = append(params, param{index: index, rest: m[3] != "", name: name, text: strings.TrimSpace(text)})
	}
	return params
}

// unlooked: the key only says which node runs the script.
func (p param) unlooked() bool { return strings.Contains(p.text, "not looked at") }

// TestScriptHeaders: each script opens with #!lua and a header of purpose, keys with types, arguments and replies, in
// order and without gaps.
func TestScriptHeaders(t *testing.T) {
	for _, s := range sources(t) {
		t.Run(s.name, func(t *testing.T) {
			first, _, _ := strings.Cut(s.text, "\n")
			require.Contains(t, []string{"#!lua", "#!lua flags=allow-oom"}, first)
			require.Regexp(t, `^[A-Z].*[.:]?`, s.header[0], "purpose")
			require.True(t, slices.ContainsFunc(s.header, func(l string) bool { return strings.HasPrefix(l, "Replies ") }), "Replies")
			require.NotEmpty(t, s.params("KEYS"))
			for _, array := range []string{"KEYS", "ARGV"} {
				params := s.params(array)
				for i, p := range params {
					require.Equal(t, i+1, p.index, array)
					require.True(t, !p.rest || i == len(params)-1, "%s[%d..] is not the last", array, p.index)
					if array == "KEYS" && !p.unlooked() {
						require.Regexp(t, `^(STREAM|HASH|STRING|ZSET|LIST|ANY)\b`, p.text)
					}
				}
			}
		})
	}
}

var (
	localLine = regexp.MustCompile(`(?m)^local ([\w, ]+) = (.*(?:KEYS|ARGV)\[\d+\].*)$`)
	input     = regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`)
	use       = regexp.MustCompile(`(KEYS|ARGV)(\[[^\]]*\])?`)
)

// TestScriptLocals: one local per input, named as in the header; else only the lists at the ends of KEYS and ARGV are
// walked.
func TestScriptLocals(t *testing.T) {
	for _, s := range sources(t) {
		t.Run(s.name, func(t *testing.T) {
			locals := map[string]string{} // KEYS[1] -> name
			code := localLine.ReplaceAllStringFunc(s.code, func(line string) string {
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
				for _, p := range s.params(array) {
					if p.rest {
						tails[array] = p.index
					} else if !p.unlooked() {
						want[fmt.Sprintf("%s[%d]", array, p.index)] = p.name
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

// TestScriptKeysAreDeclared: what stands where a command has its key is one of the locals of KEYS, so none is built.
func TestScriptKeysAreDeclared(t *testing.T) {
	for _, s := range sources(t) {
		t.Run(s.name, func(t *testing.T) {
			keys := map[string]bool{}
			for _, p := range s.params("KEYS") {
				keys[p.name] = true
			}
			for _, m := range listed.FindAllStringSubmatch(s.code, -1) {
				for _, name := range strings.Split(m[1], ", ") {
					keys[name] = true
				}
			}
			tables := map[string]bool{} // argument lists that start with a key
			for _, m := range tableStart.FindAllStringSubmatch(s.code, -1) {
				tables["unpack("+m[1]] = keys[m[2]]
			}
			calls := call.FindAllStringSubmatch(s.code, -1)
			require.True(t, len(calls) > 0 || strings.Contains(s.code, "acl_check_cmd"), "it does nothing")
			for _, m := range calls {
				args := strings.Split(m[1], ", ")
				command := strings.Trim(args[0], "'")
				require.Regexp(t, `^[A-Z]+$`, command, m[0])
				if slices.Contains(unkeyed, command) {
					continue
				}
				at := 1
				if slices.Contains(subcommands, command) {
					at = 2
				}
				require.Greater(t, len(args), at, m[0])
				require.True(t, keys[args[at]] || tables[args[at]] || args[at] == "KEYS[i]", "%s: %s is no declared key", m[0], args[at])
			}
		})
	}
}

var marked = regexp.MustCompile(`(?s)\n-- (\w+) begin.*?\n-- (\w+) end\n`)

// TestScriptsShareBlocks: scripts have no includes, so lines that several need stand in each, between "-- name begin" and
// "-- name end": the same bytes.
func TestScriptsShareBlocks(t *testing.T) {
	blocks := map[string]source{} // by name: where it was seen first
	text := map[string]string{}
	users := map[string]int{}
	all := sources(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		found := marked.FindAllStringSubmatch(s.text, -1)
		require.Len(t, found, strings.Count(s.text, " begin:"), "%s: a block that does not end", name)
		for _, m := range found {
			require.Equal(t, m[1], m[2], name)
			if users[m[1]]++; users[m[1]] == 1 {
				blocks[m[1]], text[m[1]] = s, m[0]
			}
			require.Equal(t, text[m[1]], m[0], "%s in %s and in %s", m[1], blocks[m[1]].name, name)
		}
	}
	require.GreaterOrEqual(t, users["mint"], 3)
	for name, n := range users {
		require.Greater(t, n, 1, "%s stands in one script only", name)
	}
}
