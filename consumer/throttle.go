package consumer

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logEvery is how often one kind of warning is logged.
const logEvery = 10 * time.Second

// throttle logs each kind of message at most once in a while, with the number of those held back since.
type throttle struct {
	log *slog.Logger

	mu   sync.Mutex
	kind map[string]*kind
}

type kind struct {
	last time.Time
	held int
}

func newThrottle(log *slog.Logger) *throttle {
	return &throttle{log: log, kind: map[string]*kind{}}
}

// warn logs, unless the same message was logged just now. Messages are constants, so there are few kinds.
func (t *throttle) warn(message string, args ...any) { t.at(slog.LevelWarn, message, args...) }

func (t *throttle) error(message string, args ...any) { t.at(slog.LevelError, message, args...) }

func (t *throttle) at(level slog.Level, message string, args ...any) {
	if held, ok := t.pass(message, time.Now()); ok {
		if held > 0 {
			args = append(args, slog.Int("held_back", held))
		}
		t.log.Log(context.Background(), level, message, args...)
	}
}

func (t *throttle) pass(message string, now time.Time) (held int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kind[message]
	if k == nil {
		k = &kind{}
		t.kind[message] = k
	} else if now.Sub(k.last) < logEvery {
		k.held++
		return 0, false
	}
	held, k.held, k.last = k.held, 0, now
	return held, true
}
