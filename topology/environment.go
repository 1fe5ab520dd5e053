package topology

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reference is $${, which stands for ${, or a variable: ${NAME}, ${NAME:-default}; or what was meant as one.
var reference = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{`)

// substitute puts the values of variables into a text. A default is used where a variable is not set or empty. It says of the
// first one that will not do what is wrong, and what to write.
func (s secrets) substitute(text string, lookup func(string) (string, bool)) (result, wrong, do string) {
	result = reference.ReplaceAllStringFunc(text, func(found string) string {
		m := reference.FindStringSubmatch(found)
		switch {
		case found == "$${":
			return "${"
		case m[1] == "":
			wrong, do = "${ begins a variable, and none follows", "write ${NAME} or ${NAME:-default}, or $${ for the characters"
			return found
		}
		if value, set := lookup(m[1]); value != "" || set && m[2] == "" {
			if value != "" {
				s[value] = m[1]
			}
			return value
		}
		if m[2] == "" {
			wrong, do = "the variable "+m[1]+" is not set", "set it, or give a default: ${"+m[1]+":-...}"
		}
		return m[3]
	})
	return result, wrong, do
}

// refers tells whether there is something to substitute in a text.
func refers(text string) bool { return strings.Contains(text, "${") }

// secrets are values that came from the environment, each with its name: they may be shown nowhere.
type secrets map[string]string

// Values of fewer bytes are taken out of what is said about themselves only, where they stand for nothing else; of others so
// much is as good as all.
const secretLength = 4

// hide takes the values out of a text, also where they are quoted, or cut. All: however short they are.
func (s secrets) hide(text string, all bool) string {
	for _, value := range slices.SortedFunc(maps.Keys(s), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) {
		if len(value) < secretLength && !all {
			continue
		}
		shown := "${" + s[value] + "}"
		quoted := strconv.Quote(value)
		for _, form := range []string{value, quoted[1 : len(quoted)-1]} {
			text = strings.ReplaceAll(text, form, shown)
			for n := len(form) - 1; n >= 2*secretLength; n-- {
				text = strings.ReplaceAll(text, form[:n], shown)
			}
		}
	}
	return text
}
