package schedule

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/netresearch/go-cron"
)

// maxExpression is the longest expression, in bytes: a list of all minutes takes 169.
const maxExpression = 512

var fields = []string{"minute", "hour", "day of the month", "month", "day of the week"}

// words are expressions by name.
var words = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

var (
	field = regexp.MustCompile(`[^ \t]+`)
	// element is what a field is a list of, by its form: the library lets pass what nobody means, as "+1" and "*-5".
	element = regexp.MustCompile(`^(?:[*?]|[0-9A-Za-z]+(?:-[0-9A-Za-z]+)?)(?:/[0-9]+)?$|^[0-9A-Za-z]+#[0-9Ll]$`)
)

var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Extended | cron.DowOrDom).
	WithMaxSearchYears(searchYears)

// parse reads an expression; of a wrong one it finds the first element that is wrong.
func parse(expression string) (*cron.SpecSchedule, error) {
	fault := func(at int, format string, args ...any) error {
		return &SyntaxError{expression, at + 1, fmt.Sprintf(format, args...)}
	}
	if len(expression) > maxExpression {
		return nil, &SyntaxError{shorten(expression), maxExpression + 1, fmt.Sprintf("%d bytes, more than %d", len(expression), maxExpression)}
	}
	text := expression
	if word := strings.Trim(expression, " \t"); strings.HasPrefix(word, "@") {
		at := strings.Index(expression, "@")
		if strings.HasPrefix(word, "@every") {
			return nil, fault(at, "an interval is no cron expression: declare it as one")
		}
		var ok bool
		if text, ok = words[word]; !ok {
			return nil, fault(at, "unknown word %q", word)
		}
	}
	at := field.FindAllStringIndex(text, -1)
	for i, span := range at[:min(len(at), len(fields))] {
		if offset, reason := faulty(i, text[span[0]:span[1]]); reason != "" {
			return nil, fault(span[0]+offset, "%s", reason)
		}
	}
	switch {
	case len(at) > len(fields):
		return nil, fault(at[len(fields)][0], "a field too many: want %s", strings.Join(fields, ", "))
	case len(at) < len(fields):
		return nil, fault(len(text), "%s is missing", fields[len(at)])
	}
	return compile(strings.Join(field.FindAllString(text, -1), " "))
}

// faulty finds the first element of a field that is wrong, and says why; "" when none is.
func faulty(i int, text string) (offset int, reason string) {
	for _, e := range strings.Split(text, ",") {
		switch {
		case e == "":
			return offset, fields[i] + ": an empty element"
		case !element.MatchString(e):
			return offset, fmt.Sprintf("%s: %q is no element", fields[i], e)
		}
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = e
		if _, err := compile(strings.Join(alone, " ")); err != nil {
			return offset, fmt.Sprintf("%s: %s", fields[i], strings.TrimSuffix(err.Error(), fmt.Sprintf(": %q", e)))
		}
		offset += len(e) + 1
	}
	return 0, ""
}

// compile gives five fields to the library.
func compile(text string) (*cron.SpecSchedule, error) {
	parsed, err := parser.Parse("TZ=UTC " + text)
	if err != nil {
		return nil, err
	}
	return parsed.(*cron.SpecSchedule), nil // what is no @word is one
}

// shorten cuts a text that is too long to be shown.
func shorten(text string) string {
	text = text[:64]
	for !utf8.ValidString(text) && len(text) > 60 {
		text = text[:len(text)-1]
	}
	return text + "..."
}
