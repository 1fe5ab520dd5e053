package consumer

import (
	"errors"
	"time"
)

// Verdict is what the error that a handler returned says of its message.
type Verdict uint8

const (
	VerdictSettle     Verdict = iota // nil: it is done
	VerdictRetry                     // any other error: it comes again after a pause of Config.Backoff
	VerdictRetryAfter                // RetryAfter: the same, after the pause that it names
	VerdictSnooze                    // Snooze: it comes again after the pause that it names, and the attempt does not count
	VerdictPermanent                 // Permanent: it goes to the dead letters
)

// String is one word, for logs.
func (v Verdict) String() string {
	switch v {
	case VerdictSettle:
		return "settle"
	case VerdictRetryAfter:
		return "retry after"
	case VerdictSnooze:
		return "snooze"
	case VerdictPermanent:
		return "permanent"
	default:
		return "retry"
	}
}

// VerdictOf reads the verdict of an error, wrapped or not, and the pause that [RetryAfter] or [Snooze] names. It is for
// what stands around a handler: the consumer itself may decide otherwise, when a message was delivered as often as it
// may be, when its lease was lost, and when a stop interrupted its handler.
func VerdictOf(err error) (v Verdict, pause time.Duration) {
	if err == nil {
		return VerdictSettle, 0
	}
	e := (*verdictError)(nil)
	if !errors.As(err, &e) {
		return VerdictRetry, 0
	}
	switch e.fate {
	case fateDead:
		return VerdictPermanent, 0
	case fateLater:
		return VerdictSnooze, max(0, e.delay)
	default:
		return VerdictRetryAfter, max(0, e.delay)
	}
}
