package bench

import (
	"errors"
	"fmt"
)

// ErrConfig is matched by every refusal of a Config.
var ErrConfig = errors.New("bench: bad configuration")

// The bounds of a Config.
const (
	MinSize     = numberBytes
	MaxSize     = 1 << 20
	MaxCount    = 10_000_000
	MaxAtOnce   = 1024
	MaxRounds   = 100
	MaxPayload  = 1 << 30 // bytes of the messages of a round
	DefaultSize = 200
)

// Config says how much is measured. The zero value is ready to use.
type Config struct {
	// Size is how many bytes of data a message has. Default 200; 8 to 1 MiB.
	Size int
	// Count is how many messages a round has. Default 100,000. Few, a round is over before anything has settled; many, they
	// take memory of the server, for the work and its ceiling in turn: Size times Count is at most 1 GiB.
	Count int
	// Concurrency is how many callers or handlers are at work at once. Default 0: what each work says.
	Concurrency int
	// Rounds is how often each work and its ceiling take turns. Default 5. A single one says little: machines drift.
	Rounds int
	// Progress, which may be nil, is told how many messages are done, of how many in all.
	Progress func(done, total int)
	// Entered, which may be nil, is told the scope that is written to, before it is.
	Entered func(scope string)
}

func (c *Config) setDefaults() {
	if c.Size == 0 {
		c.Size = DefaultSize
	}
	if c.Count == 0 {
		c.Count = 100_000
	}
	if c.Rounds == 0 {
		c.Rounds = 5
	}
	if c.Progress == nil {
		c.Progress = func(int, int) {}
	}
	if c.Entered == nil {
		c.Entered = func(string) {}
	}
}

func (c *Config) validate() error {
	for _, f := range []struct {
		name           string
		value, low, up int
	}{
		{"Size", c.Size, MinSize, MaxSize},
		{"Count", c.Count, 1, MaxCount},
		{"Concurrency", c.Concurrency, 0, MaxAtOnce},
		{"Rounds", c.Rounds, 1, MaxRounds},
	} {
		if f.value < f.low || f.value > f.up {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrConfig, f.name, f.value, f.low, f.up)
		}
	}
	return CheckPayload(c.Size, c.Count)
}

// CheckPayload refuses rounds that would take much of a server's memory.
func CheckPayload(size, count int) error {
	if size*count > MaxPayload {
		return fmt.Errorf("%w: %d messages of %d bytes are more than 1 GiB of the server's memory in a round: take fewer", ErrConfig, count, size)
	}
	return nil
}
