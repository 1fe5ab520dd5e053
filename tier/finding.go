package tier

import "errors"

// Finding is one broken invariant that an audit has found.
type Finding struct {
	Key    string
	Broken string // what does not hold
}

func (f *Finding) Error() string { return f.Key + ": " + f.Broken }

// Findings takes an error of an audit apart; there are none when it is another error.
func Findings(err error) (all []*Finding) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, Findings(e)...)
		}
		return all
	}
	var f *Finding
	if errors.As(err, &f) {
		all = append(all, f)
	}
	return all
}
