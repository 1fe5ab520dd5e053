package queue

import (
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/tier"
)

// options are Terms as they are stored with a job: msgpack, without what is 0.
type options struct {
	MaxAttempts int      `msgpack:"n,omitempty"`
	Backoff     int64    `msgpack:"b,omitempty"` // ms, as those below
	MaxBackoff  int64    `msgpack:"l,omitempty"`
	Timeout     int64    `msgpack:"t,omitempty"`
	Deadline    int64    `msgpack:"d,omitempty"` // unix
	Keep        int64    `msgpack:"k,omitempty"`
	Tags        []string `msgpack:"g,omitempty"`
}

// optionsOf is empty for terms that ask for nothing.
func optionsOf(t *tier.Terms) (string, error) {
	for _, d := range []time.Duration{t.Backoff, t.MaxBackoff, t.Timeout, t.Keep} {
		if d < 0 {
			return "", fmt.Errorf("%w: a job's terms have %s, below 0", ErrBadCall, d)
		}
	}
	if t.MaxAttempts == 0 && t.Backoff|t.MaxBackoff|t.Timeout|t.Keep == 0 && t.Deadline.IsZero() && len(t.Tags) == 0 {
		return "", nil
	}
	o := options{
		MaxAttempts: t.MaxAttempts, Backoff: wholeMillis(t.Backoff), MaxBackoff: wholeMillis(t.MaxBackoff),
		Timeout: wholeMillis(t.Timeout), Keep: wholeMillis(t.Keep), Tags: t.Tags,
	}
	if !t.Deadline.IsZero() {
		o.Deadline = t.Deadline.UnixMilli()
	}
	text, err := msgpack.Marshal(&o)
	return string(text), err
}

// wholeMillis is the time in ms: what is asked for, however short, is not nothing.
func wholeMillis(d time.Duration) int64 {
	if d > 0 && d < time.Millisecond {
		return 1
	}
	return d.Milliseconds()
}

// termsOf reads options. What cannot be read asks for nothing.
func termsOf(text string) *tier.Terms {
	var o options
	if msgpack.Unmarshal([]byte(text), &o) != nil {
		return &tier.Terms{}
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	t := &tier.Terms{
		MaxAttempts: o.MaxAttempts, Backoff: ms(o.Backoff), MaxBackoff: ms(o.MaxBackoff), Timeout: ms(o.Timeout), Keep: ms(o.Keep), Tags: o.Tags,
	}
	if o.Deadline != 0 {
		t.Deadline = time.UnixMilli(o.Deadline).UTC()
	}
	return t
}
