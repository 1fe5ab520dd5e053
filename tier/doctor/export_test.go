package doctor

import "strings"

// Commands are those that a role needs, as ACL SETUSER has them.
func Commands(role string) (rules []string) {
	for _, n := range roles[role] {
		rules = append(rules, "+"+strings.ToLower(strings.ReplaceAll(n.command, " ", "|")))
	}
	return rules
}
