package schedule

import (
	"errors"
	"fmt"
)

// ErrInterval is wrapped when an interval has no grid: it is not positive, or finer than the server's clock.
var ErrInterval = errors.New("schedule: not an interval")

// SyntaxError is what is wrong with a cron expression, and where.
type SyntaxError struct {
	Expression string
	Column     int    // of the fault's first byte, from 1
	Reason     string // names the field
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("schedule: cron expression %q, column %d: %s", e.Expression, e.Column, e.Reason)
}

// ZoneError is a time zone that is not known here.
type ZoneError struct {
	Zone string
	Err  error // why, or nil
}

func (e *ZoneError) Error() string {
	if e.Zone == "Local" {
		return `schedule: time zone "Local" is another one on each machine: name it, as in "Europe/Berlin"`
	}
	return fmt.Sprintf("schedule: unknown time zone %q: want a name of the IANA database as in \"Europe/Berlin\", "+
		"and a system that has the database, or a program that imports time/tzdata: %v", e.Zone, e.Err)
}

func (e *ZoneError) Unwrap() error { return e.Err }
