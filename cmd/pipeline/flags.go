package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/echomq/pipeline/cmd/pipeline/internal/when"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// value is a flag whose text is checked when the command line is read, so that
// what is wrong is refused before anything is sent.
type value struct {
	text string
	kind string // what stands for the value in help texts
	set  func(string) error
}

func (v *value) String() string { return v.text }
func (v *value) Type() string   { return v.kind }

func (v *value) Set(s string) error {
	if err := v.set(s); err != nil {
		return err
	}
	v.text = s
	return nil
}

// number is a whole number from low to high.
func number(p *int, low, high int) *value {
	v := &value{kind: "N", set: func(s string) error {
		n, err := strconv.Atoi(s)
		switch {
		case (err != nil || n < low || n > high) && high == math.MaxInt:
			return fmt.Errorf("want a whole number, %d or more", low)
		case err != nil || n < low || n > high:
			return fmt.Errorf("want a whole number from %d to %d", low, high)
		}
		*p = n
		return nil
	}}
	if *p != 0 {
		v.text = strconv.Itoa(*p)
	}
	return v
}

// perSecond is a rate above zero.
func perSecond(p *float64) *value {
	return &value{kind: "N", set: func(s string) error {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f > 0 && f <= 1e9) {
			return fmt.Errorf("want a number of messages per second, above 0")
		}
		*p = f
		return nil
	}}
}

// duration is a length of time.
func duration(p *time.Duration) *value {
	return &value{kind: "DUR", set: func(s string) (err error) {
		*p, err = when.ParseDuration(s)
		return err
	}}
}

// moment is a point of time, in UTC where no zone is given.
func moment(p *time.Time) *value {
	return &value{kind: "TIME", set: func(s string) (err error) {
		*p, err = when.ParseEvent(s)
		return err
	}}
}

// jsonText is one JSON value.
func jsonText(p *string) *value {
	return &value{kind: "JSON", set: func(s string) error {
		if !json.Valid([]byte(s)) || !utf8.ValidString(s) {
			return errors.New(`want a JSON value, as in {"to":"ann"}`)
		}
		*p = s
		return nil
	}}
}

// choice is one of several words.
func choice(p *string, words ...string) *value {
	return &value{kind: strings.Join(words, "|"), set: func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("want one of %s", strings.Join(words, ", "))
		}
		*p = s
		return nil
	}}
}

// brand is three capital letters.
func brand(p *codec.Brand) *value {
	return &value{kind: "ABC", set: func(s string) (err error) {
		if *p, err = codec.ParseBrand(s); err != nil {
			return fmt.Errorf("want three capital letters, A to Z")
		}
		return nil
	}}
}

// name is the name of a group.
func name(p *string, kind string) *value {
	return &value{kind: "NAME", set: func(s string) error {
		*p = s
		return tier.CheckName(kind, s)
	}}
}

// given is any text but none, which a script gives whose variable is not set.
func given(p *string, want string) *value {
	return &value{kind: "string", set: func(s string) error {
		if strings.TrimSpace(s) == "" {
			return fmt.Errorf("want %s", want)
		}
		*p = s
		return nil
	}}
}

// word is any text but none, of a bounded length.
func word(p *string, kind string, limit int) *value {
	return &value{kind: kind, set: func(s string) error {
		if s == "" || len(s) > limit {
			return fmt.Errorf("want 1 to %d bytes", limit)
		}
		*p = s
		return nil
	}}
}

// texts are words of a flag that may be given several times.
func texts(p *[]string, kind string, limit int) *value {
	var one string
	v := word(&one, kind, limit)
	set := v.set
	v.set = func(s string) error {
		err := set(s)
		if err == nil {
			*p = append(*p, one)
		}
		return err
	}
	return v
}
