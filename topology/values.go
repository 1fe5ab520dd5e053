package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/topology/stage"
)

// Size is a number of bytes: 4096, 64KiB, 1.5GiB, or in powers of a thousand 64kB, 1GB.
type Size int64

var sizes = regexp.MustCompile(`^(\d{1,18}(?:\.\d{1,9})?) ?([kKMGTP]i?)?B?$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	m := sizes.FindStringSubmatch(string(text))
	if m == nil {
		return errors.New("want a number of bytes, as in 4096, 64KiB, 1GiB or 500MB")
	}
	n, err := strconv.ParseFloat(m[1], 64)
	base := 1000.0
	if strings.HasSuffix(m[2], "i") {
		base = 1024
	}
	if m[2] != "" {
		n *= math.Pow(base, float64(1+strings.Index("KMGTP", strings.ToUpper(m[2][:1]))))
	}
	if err != nil || n >= math.MaxInt64 {
		return errors.New("want a number of bytes below 8 EiB")
	}
	*s = Size(n)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) {
	for i, unit := range []string{"PiB", "TiB", "GiB", "MiB", "KiB"} {
		if one := Size(1) << (50 - 10*i); s >= one && s%one == 0 {
			return fmt.Appendf(nil, "%d%s", s/one, unit), nil
		}
	}
	return strconv.AppendInt(nil, int64(s), 10), nil
}

// Rate is how many jobs may begin in a time: 100/1m.
type Rate struct{ queue.Rate }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	count, per, _ := strings.Cut(string(text), "/")
	n, err := strconv.Atoi(count)
	var d stage.Duration
	if err = errors.Join(err, d.UnmarshalText([]byte(per))); err != nil || d < 1 || time.Duration(d)%time.Millisecond != 0 || n < 1 || n > math.MaxInt32 {
		return errors.New("want jobs in a time, in whole milliseconds, as in 100/1m")
	}
	r.Rate = queue.Rate{Jobs: n, Per: time.Duration(d)}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) {
	if r.Rate == (queue.Rate{}) {
		return nil, nil
	}
	return fmt.Appendf(nil, "%d/%s", r.Jobs, stage.Duration(r.Per)), nil
}

// payload is a value as JSON; of none, none.
func payload(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}
