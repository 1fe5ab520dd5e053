package stage

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/internal/duration"
)

// Duration is a time.Duration that is written as 1h30m, or in days or weeks: 7d, 1d12h, 2w. A day has 24 hours.
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	t, err := duration.Parse(string(text))
	if err != nil {
		return fmt.Errorf("stage: %.32q is no duration: %w", text, err)
	}
	*d = Duration(t)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Duration) String() string {
	if t := time.Duration(d); t >= duration.Day && t%duration.Day == 0 {
		return strconv.FormatInt(int64(t/duration.Day), 10) + "d"
	}
	text := time.Duration(d).String()
	if trimmed, found := strings.CutSuffix(text, "m0s"); found {
		text = strings.TrimSuffix(trimmed+"m", "h0m")
		if !strings.HasSuffix(text, "m") {
			text += "h"
		}
	}
	return text
}
