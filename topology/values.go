package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/topology/stage"
)

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
