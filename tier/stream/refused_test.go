package stream_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

var (
	called = regexp.MustCompile(`(?:call|pcall)\('([A-Z]+)'(?:, '([A-Z]+)')?`)
	parent = map[string]bool{"XGROUP": true, "XINFO": true} // of subcommands
)

// commandsOf are those that a script runs, as the access list has them.
func commandsOf(s source) map[string]bool {
	all := map[string]bool{}
	for _, m := range called.FindAllStringSubmatch(s.Code, -1) {
		name := m[1]
		if parent[name] {
			name += "|" + m[2]
		}
		all[strings.ToLower(name)] = true
	}
	return all
}

// TestTransitionsRefusedWhole (B149): a script that runs into a missing right has changed nothing.
func TestTransitionsRefusedWhole(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Shared(t, kind)
			u := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all")
			client := tiertest.Dial(t, addressed(u.At(s)))
			eachTransition(t, func(t *testing.T, src source, row transition) {
				var half []string // all at once: who changes a script sees what it has to ask for first
				for _, command := range slices.Sorted(maps.Keys(commandsOf(src))) {
					if command == "xrange" {
						continue // with which the rows look at the log
					}
					f := setUpWith(t, s, client)
					do, state := row.prepare(f)
					u.Grant(t, []*tiertest.Server{s}, "-"+command)
					_, err := do()
					u.Grant(t, []*tiertest.Server{s}, "+@all") // for who looks at what was left
					if err != nil {
						require.ErrorIs(t, err, tier.ErrPermission, command)
						if left := state(); left != row.before {
							half = append(half, command+": "+left)
						}
					}
				}
				require.Empty(t, half, "it was %s", row.before)
			})
		})
	}
}
