package show

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/echomq/pipeline/codec"
)

// Line is a message for a person: time, id, type, key and data, at most width
// columns wide; 0 is no bound. It holds no control character, whatever the message
// holds: a terminal would obey it.
func Line(r *codec.Record, width int) string {
	data, what := appendData(nil, &r.Message), r.Type
	if r.Foreign() || r.Err != nil {
		data, what = rawText(r), "(foreign)"
	}
	if r.Err != nil {
		what = "(undecodable)"
	}
	id := r.ID.String()
	if id == "" {
		id = r.Position.Entry.String()
	}
	parts := []string{r.Addr.Time().Format("2006-01-02 15:04:05.000"), id, what}
	if r.Key != "" {
		parts = append(parts, r.Key)
	}
	parts = append(parts, string(data))
	return Clip(Printable(strings.Join(parts, "  ")), width)
}

func rawText(r *codec.Record) []byte {
	var b []byte
	for i := 0; i+1 < len(r.Fields); i += 2 {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(append(append(b, r.Fields[i]...), '='), r.Fields[i+1]...)
	}
	return b
}

// Printable replaces what a terminal would obey or could not show.
func Printable(s string) string {
	clean := true
	for _, c := range s {
		clean = clean && unicode.IsPrint(c) && c != utf8.RuneError
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			quoted := strconv.QuoteRune(c)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// Clip cuts s to width columns and marks that it did; 0 is no bound.
func Clip(s string, width int) string {
	if width <= 0 || Width(s) <= width {
		return s
	}
	used := 0
	for i, c := range s {
		if used += runeWidth(c); used > width-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// Number is n with commas: 38,094.
func Number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count is n of something: "1 message", "38,094 messages".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return Number(int64(n)) + " " + what
}

// Bytes is a size in three digits or so: "512 B", "1.2 KiB", "3.4 GiB".
func Bytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, units := float64(n)/1024, []string{"KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && f >= 1024 {
		f, units = f/1024, units[1:]
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + units[0]
}

// Rate is n in d, per second: "38,094/s".
func Rate(n int, d time.Duration) string {
	if d <= 0 {
		d = time.Nanosecond
	}
	per := float64(n) / d.Seconds()
	if per < 10 {
		return strconv.FormatFloat(per, 'f', 1, 64) + "/s"
	}
	return Number(int64(per)) + "/s"
}

// Duration is d in three digits or so: "412µs", "1.23s", "2h5m0s".
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
