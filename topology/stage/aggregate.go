package stage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/echomq/pipeline/consumer"
)

// total is an exact sum. What is an integer is added as one; of the rest the sum is kept as parts that do not overlap, as
// Shewchuk has shown: their sum is that of all that was added, whatever the order, and is rounded once, at the end.
type total struct {
	Int   int64     `json:"i,omitempty"`
	Parts []float64 `json:"p,omitempty"`
	Float bool      `json:"f,omitempty"` // not all were integers, or their sum had more than 64 bits
}

func (t *total) add(v any) {
	if n, ok := v.(int); ok {
		sum := t.Int + int64(n)
		if (sum > t.Int) == (n > 0) || n == 0 {
			t.Int = sum
			return
		}
		t.spill()
		t.Int = int64(n)
		return
	}
	t.Float = true
	t.addFloat(v.(float64))
}

// spill moves the integers to the parts, in two halves that a float64 holds exactly.
func (t *total) spill() {
	const low = 1 << 32
	t.addFloat(float64(t.Int / low * low))
	t.addFloat(float64(t.Int % low))
	t.Int, t.Float = 0, true
}

func (t *total) addFloat(x float64) {
	n := 0
	for _, y := range t.Parts {
		if math.Abs(x) < math.Abs(y) {
			x, y = y, x
		}
		high := x + y
		low := y - (high - x)
		if low != 0 {
			t.Parts[n] = low
			n++
		}
		x = high
	}
	t.Parts = append(t.Parts[:n], x)
}

// value is an int or a float64.
func (t total) value() any {
	if !t.Float {
		return int(t.Int)
	}
	t.Parts = slices.Clone(t.Parts)
	t.spill()
	return t.round()
}

// round is the float64 that is nearest to the sum of the parts.
func (t *total) round() float64 {
	n := len(t.Parts)
	if n == 0 {
		return 0
	}
	n--
	high := t.Parts[n]
	low := 0.0
	for n > 0 {
		x := high
		n--
		y := t.Parts[n]
		high = x + y
		if low = y - (high - x); low != 0 {
			break
		}
	}
	// Half way between two: what is left decides.
	if n > 0 && (low < 0 && t.Parts[n-1] < 0 || low > 0 && t.Parts[n-1] > 0) {
		y := low * 2
		if x := high + y; y == x-high {
			high = x
		}
	}
	return high
}

// tally is one value of a window. Its fields are those that its verb needs.
type tally struct {
	Count int      `json:"n,omitempty"` // of messages, or of values
	Total total    `json:"t,omitzero"`
	Best  any      `json:"b,omitempty"` // least or greatest: int or float64
	Seen  []string `json:"s,omitempty"` // distinct values as JSON, ascending
}

// maxSummed keeps sums finite, however many are added: what is no number could be kept nowhere.
const maxSummed = 1e290

var errNumber = errors.New("want a number")

// accept checks a value, before any tally of the message changes: what it is added as, nil: it does not count.
func (a *aggregate) accept(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if a.verb == "distinct" {
		switch v.(type) {
		case string, int, float64, bool:
			text, err := json.Marshal(v)
			if len(text) > 256 { // a digest is as distinct, and has an end
				sum := sha256.Sum256(text)
				return hex.EncodeToString(sum[:]), err
			}
			return string(text), err
		}
		return nil, fmt.Errorf("is %s, want a text, a number or a truth", typeName(v))
	}
	switch x := v.(type) {
	case int:
		return x, nil
	case float64:
		if summed := a.verb == "sum" || a.verb == "mean"; summed && math.Abs(x) > maxSummed {
			return nil, fmt.Errorf("is %g, and sums are of numbers up to %g", x, maxSummed)
		}
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			return x, nil
		}
	case int64:
		return int(x), nil
	}
	return nil, fmt.Errorf("is %s, %w", typeName(v), errNumber)
}

// fits tells whether another distinct value is one too many.
func (a *aggregate) fits(t *tally, v any, most int) error {
	if a.verb != "distinct" || v == nil || len(t.Seen) < most {
		return nil
	}
	if _, found := slices.BinarySearch(t.Seen, v.(string)); found {
		return nil
	}
	return a.tooMany(most)
}

// unite tells whether windows that become one have too many distinct values together, with that of the message.
func (a *aggregate) unite(merged []*cell[open], i int, v any, most int) error {
	if a.verb != "distinct" {
		return nil
	}
	all := map[string]bool{}
	for _, c := range merged {
		for _, seen := range c.value.Tallies[i].Seen {
			all[seen] = true
		}
	}
	if text, ok := v.(string); ok {
		all[text] = true
	}
	if len(all) > most {
		return a.tooMany(most)
	}
	return nil
}

func (a *aggregate) tooMany(most int) error {
	return consumer.Permanent(fmt.Errorf("stage: %s: the window would have more than %d distinct values, which is max_distinct", a.name, most))
}

func (a *aggregate) add(t *tally, v any) {
	if a.verb == "count" {
		t.Count++
		return
	}
	if v == nil {
		return
	}
	switch a.verb {
	case "sum", "mean":
		t.Count++
		t.Total.add(v)
	case "min":
		if t.Best == nil || number(v) < number(t.Best) {
			t.Best = v
		}
	case "max":
		if t.Best == nil || number(v) > number(t.Best) {
			t.Best = v
		}
	case "distinct":
		if i, found := slices.BinarySearch(t.Seen, v.(string)); !found {
			t.Seen = slices.Insert(t.Seen, i, v.(string))
		}
	}
}

// merge adds what another window has.
func (a *aggregate) merge(t, o *tally) {
	t.Count += o.Count
	t.Total.Float = t.Total.Float || o.Total.Float
	t.Total.add(int(o.Total.Int))
	for _, x := range o.Total.Parts {
		t.Total.addFloat(x)
	}
	if o.Best != nil {
		a.add(t, o.Best)
	}
	for _, v := range o.Seen {
		a.add(t, v)
	}
}

// result is what stands in the message; nil where nothing was to be added up.
func (a *aggregate) result(t *tally) any {
	switch a.verb {
	case "count":
		return t.Count
	case "sum":
		return t.Total.value()
	case "mean":
		if t.Count == 0 {
			return nil
		}
		return number(t.Total.value()) / float64(t.Count)
	case "distinct":
		return len(t.Seen)
	}
	return plain(t.Best)
}

func number(v any) float64 {
	switch x := v.(type) {
	case int:
		return float64(x)
	case float64:
		return x
	}
	return math.NaN()
}

// jsonNumber keeps what is an integer one when a tally is read again.
func (t *tally) UnmarshalJSON(text []byte) error {
	type same tally
	var raw struct {
		same
		Best json.Number `json:"b"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*t = tally(raw.same)
	if raw.Best == "" {
		return nil
	}
	if n, err := strconv.Atoi(string(raw.Best)); err == nil {
		t.Best = n
		return nil
	}
	f, err := raw.Best.Float64()
	t.Best = f
	return err
}
