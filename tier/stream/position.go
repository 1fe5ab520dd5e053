package stream

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Position is the last position that a named producer has appended to the stream, whichever process did; 0: none. Who goes on
// after another reads it, leaves out what is at or below it, and appends what comes next with AppendAfter: a call of the other
// that is still on its way then is refused, or this one is.
func (w *Writer) Position(ctx context.Context) (uint64, error) {
	if w.cfg.Producer == "" {
		return 0, fmt.Errorf("%w: Position is that of a named producer", ErrBadCall)
	}
	key := w.place.addr.ProducerKey(w.cfg.Producer)
	m, err := w.place.client.Do(ctx, key, w.place.client.B().Get().Key(key).Build())
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	held, err := m.ToString()
	if err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(held, " ")
	last, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stream: %s: %.32q is no record of a producer", key, held)
	}
	return last, nil
}
