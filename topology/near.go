package topology

import (
	"fmt"
	"slices"
	"strings"
)

// nearest is the one of some names that a name was probably meant to be; empty: none is near.
func nearest(name string, names []string) string {
	best, least := "", 2
	if len(name) > 3 {
		least = max(3, len(name)/3+1)
	}
	for _, one := range slices.Sorted(slices.Values(names)) {
		if d := distance(strings.ToLower(name), strings.ToLower(one)); d < least {
			best, least = one, d
		}
	}
	return best
}

// meant says what to write in place of a name that there is none of.
func meant(name string, names []string, otherwise string) string {
	switch near := nearest(name, names); {
	case near != "":
		return fmt.Sprintf("did you mean %s?", near)
	case len(names) == 0 || len(names) > 24:
		return otherwise
	}
	names = slices.Sorted(slices.Values(names))
	return strings.TrimPrefix(otherwise+"; ", "; ") + "there is " + strings.Join(names, ", ")
}

// distance is how many letters have to be changed, put in or left out to make one word of another (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
