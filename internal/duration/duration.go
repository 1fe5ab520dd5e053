// Package duration reads lengths of time as people write them.
package duration

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Day has 24 hours.
const Day = 24 * time.Hour

// maxDays is a century, which a time.Duration holds with room for the hours.
const maxDays = 36500

var errNone = errors.New("want a length of time, as in 500ms, 90s, 15m, 2h30m, 7d, 2w")

var longUnits = regexp.MustCompile(`^(?:(\d{1,6})w)?(?:(\d{1,6})d)?`)

// Parse reads a Go duration, with weeks and days in front: 2w, 7d, 1d12h. It is not below zero.
func Parse(s string) (time.Duration, error) {
	m := longUnits.FindStringSubmatch(s)
	weeks, _ := strconv.Atoi(m[1])
	days, _ := strconv.Atoi(m[2])
	if days += 7 * weeks; days > maxDays {
		return 0, errNone
	}
	total := time.Duration(days) * Day
	if rest := s[len(m[0]):]; rest != "" || s == "" {
		d, err := time.ParseDuration(rest)
		if err != nil || strings.HasPrefix(rest, "-") || d > maxDays*Day {
			return 0, errNone
		}
		total += d
	}
	return total, nil
}
