package stage

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
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
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Size) String() string {
	for i, unit := range []string{"PiB", "TiB", "GiB", "MiB", "KiB"} {
		if one := Size(1) << (50 - 10*i); s >= one && s%one == 0 {
			return fmt.Sprintf("%d%s", int64(s/one), unit)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
