package bridge

import (
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// The metadata by which Watermill's package components/delay asks for a delay. They are spelled here so that nobody depends on
// that package for two names.
const (
	delayedFor   = "_watermill_delayed_for"   // a Go duration
	delayedUntil = "_watermill_delayed_until" // RFC 3339
)

// delay is how long a message that was appended at a time is not due yet, both times by the server's clock. A duration
// counts before a time: it does not depend on the publisher's clock, nor on how well that is written down. What cannot be
// read is no delay.
func delay(m message.Metadata, appended, now time.Time) time.Duration {
	if d, err := time.ParseDuration(m[delayedFor]); err == nil {
		return max(0, appended.Add(d).Sub(now))
	}
	if until, err := time.Parse(time.RFC3339, m[delayedUntil]); err == nil {
		return max(0, until.Sub(now))
	}
	return 0
}

// isDelayed says whether a delay is asked for.
func isDelayed(m message.Metadata) bool { return m[delayedFor] != "" || m[delayedUntil] != "" }
