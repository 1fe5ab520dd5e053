package consumer

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/echomq/pipeline/tier"
)

// verdictError is an error with what is to become of its message.
type verdictError struct {
	err   error
	fate  fate
	delay time.Duration
}

func (e *verdictError) Error() string { return e.err.Error() }
func (e *verdictError) Unwrap() error { return e.err }

// Permanent is err, which trying again does not mend: the message goes to the dead letters at once. It may be wrapped.
// Permanent of nil is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &verdictError{err: err, fate: fateDead}
}

// RetryAfter is err, with the pause after which the message comes again, instead of the one of Config.Backoff. The attempt
// counts. RetryAfter of nil is nil.
func RetryAfter(err error, pause time.Duration) error {
	if err == nil {
		return nil
	}
	return &verdictError{err: err, fate: fateAgain, delay: pause}
}

var errSnoozed = errors.New("consumer: snoozed")

// Snooze is the error of a handler that is not ready for its message yet: it comes again after the pause, and this attempt
// does not count.
func Snooze(pause time.Duration) error {
	return &verdictError{err: errSnoozed, fate: fateLater, delay: pause}
}

// Why messages go to the dead letters.
const (
	deadPermanent   = "permanent"   // their handler said that trying again is of no use
	deadExhausted   = "exhausted"   // they failed as often as they may
	deadUnfinished  = "unfinished"  // they were delivered as often as they may, and the last time did not end
	deadUndecodable = "undecodable" // they cannot be read
)

// fate is what becomes of a message.
type fate uint8

const (
	fateOpen  fate = iota // its handler has not ended
	fateDone              // settled
	fateAgain             // it comes again after a pause
	fateLater             // the same, and this attempt does not count
	fateDead              // given up
)

// policy decides about messages whose handlers failed.
type policy struct {
	deliveries    int // at most; 0: no end
	base, longest time.Duration
}

func (c *Config) policy() policy {
	return policy{deliveries: max(0, c.MaxDeliveries), base: c.Backoff, longest: c.MaxBackoff}
}

// of is the policy for a message whose sender asks for terms.
func (p policy) of(t *tier.Terms) policy {
	if t == nil {
		return p
	}
	if t.MaxAttempts != 0 {
		p.deliveries = max(0, t.MaxAttempts)
	}
	if t.Backoff > 0 {
		p.base, p.longest = t.Backoff, max(p.longest, t.Backoff)
	}
	if t.MaxBackoff > 0 {
		p.longest = t.MaxBackoff
	}
	return p
}

// judge is what becomes of a message whose handler ended with err at an attempt.
func (p policy) judge(err error, attempt int) (f fate, pause time.Duration, reason string) {
	if err == nil {
		return fateDone, 0, ""
	}
	f, pause = fateAgain, jittered(tier.Doubled(attempt, p.base, p.longest))
	if v := (*verdictError)(nil); errors.As(err, &v) {
		if f = v.fate; f != fateDead {
			pause = max(0, v.delay)
		}
	}
	if f == fateAgain && p.deliveries > 0 && attempt >= p.deliveries {
		return fateDead, 0, clip(fmt.Sprintf("attempt %d of %d: %v", attempt, p.deliveries, err))
	}
	if f == fateDead {
		return fateDead, 0, clip(err.Error())
	}
	return f, pause, ""
}

// permanent says whether a handler gave its message up.
func permanent(err error) bool {
	v := (*verdictError)(nil)
	return errors.As(err, &v) && v.fate == fateDead
}

// exhausted is the reason why a message is not even begun: those who had it before did not come to an end.
func (p policy) exhausted(attempt int) (reason string, ok bool) {
	if p.deliveries == 0 || attempt <= p.deliveries {
		return "", false
	}
	return fmt.Sprintf("delivered %d times, of which the last did not end: its consumer died or lost its lease", attempt-1), true
}

const maxReason = 1024 // bytes of a dead letter's reason

func clip(text string) string {
	if len(text) <= maxReason {
		return text
	}
	cut := text[:maxReason]
	for !utf8.ValidString(cut) && len(cut) > maxReason-utf8.UTFMax && utf8.ValidString(text) {
		cut = cut[:len(cut)-1]
	}
	return strings.TrimSpace(cut) + " ..."
}
