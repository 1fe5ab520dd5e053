package report

import "fmt"

// goal is something to be reached, and what was.
type goal struct {
	Key           string // of its explanation
	Work, Against string
	Want          float64
	Most          bool // or else at least
	Short         bool // is in the short table
	Got           Spread
}

// Met says whether the median reaches it.
func (g goal) Met() bool {
	if g.Most {
		return g.Got.Median <= g.Want
	}
	return g.Got.Median >= g.Want
}

// Wanted is the goal in words.
func (g goal) Wanted() string {
	if g.Most {
		return fmt.Sprintf("at most %g", g.Want)
	}
	return fmt.Sprintf("at least %g", g.Want)
}

// Verdict is the goal, and whether it is met.
func (g goal) Verdict() string { return g.Wanted() + ": " + g.Word() }

// Word is met, or missed in bold.
func (g goal) Word() string {
	if g.Met() {
		return "met"
	}
	return "**missed**"
}

// Share is how much of the goal is reached.
func (g goal) Share() string {
	if g.Most {
		return fmt.Sprintf("%.2f times as much as it allows", g.Got.Median/g.Want)
	}
	return fmt.Sprintf("%.2f of it", g.Got.Median/g.Want)
}
