package doctor

import (
	"slices"
	"strings"
)

// Commands are those that a role needs, as ACL SETUSER has them, sorted.
func Commands(role string) (rules []string) {
	for _, n := range needsOf(role) {
		rules = append(rules, "+"+strings.ToLower(strings.ReplaceAll(n.command, " ", "|")))
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}
