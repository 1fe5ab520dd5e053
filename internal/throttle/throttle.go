// Package throttle logs what repeats itself seldom.
package throttle

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logEvery is how often one kind of warning is logged.
const logEvery = 10 * time.Second

// Logger logs each kind of message at most once in ten seconds, with the number of those held back since, as held_back.
type Logger struct {
	Log *slog.Logger // the other one, for what is said once

	mu   sync.Mutex
	kind map[string]*kind
}

type kind struct {
	last time.Time
	held int
}

// New is a Logger that logs to another.
func New(log *slog.Logger) *Logger {
	return &Logger{Log: log, kind: map[string]*kind{}}
}

// Warn logs, unless the same message was logged just now. Messages are constants, so there are few kinds.
func (t *Logger) Warn(message string, args ...any) { t.at(slog.LevelWarn, message, args...) }

// Error does the same as an error.
func (t *Logger) Error(message string, args ...any) { t.at(slog.LevelError, message, args...) }

func (t *Logger) at(level slog.Level, message string, args ...any) {
	if held, ok := t.pass(message, time.Now()); ok {
		if held > 0 {
			args = append(args, slog.Int("held_back", held))
		}
		t.Log.Log(context.Background(), level, message, args...)
	}
}

func (t *Logger) pass(message string, now time.Time) (held int, ok bool) {
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
