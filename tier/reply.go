package tier

import (
	"fmt"

	"github.com/redis/rueidis"
)

// Parts reads a reply that is a list of n parts. Another shape is a server's error or a fault of ours; op names the
// call.
func Parts(op string, m rueidis.RedisMessage, n int) ([]rueidis.RedisMessage, error) {
	parts, err := m.ToArray()
	if err == nil && len(parts) != n {
		err = fmt.Errorf("%d parts, not %d", len(parts), n)
	}
	if err != nil {
		return nil, fmt.Errorf("tier: %s: unexpected reply: %w", op, err)
	}
	return parts, nil
}

// Texts reads a reply that is a list of n texts; nil is the empty one.
func Texts(op string, m rueidis.RedisMessage, n int) ([]string, error) {
	if _, err := Parts(op, m, n); err != nil {
		return nil, err
	}
	return m.AsStrSlice()
}
