package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// logger writes the warnings of the packages below, of commands that run for long
// or write: about the server's settings, and about what is tried again.
func (a *app) logger() *slog.Logger {
	if !a.logs {
		return nil
	}
	return slog.New(&logLines{app: a})
}

// logLines writes records of the log as our other lines on standard error are:
//
//	pipeline: warning: what happened (entry 1795957200000-0, attempt 1): the error
//
// Scope, stream, group and consumer, which loggers carry along, are left out: they
// stand on the command line. Of a topology, which has many, the part is named.
type logLines struct {
	app  *app
	part string
}

func (l *logLines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *logLines) WithGroup(string) slog.Handler { return l }

func (l *logLines) WithAttrs(attrs []slog.Attr) slog.Handler {
	of := *l
	for _, a := range attrs {
		switch a.Key {
		case "source", "stage", "projection", "sink":
			of.part = cmp.Or(of.part, a.Key+" "+a.Value.String())
		}
	}
	return &of
}

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	var details []string
	if l.part != "" {
		details = append(details, l.part)
	}
	cause, told := "", false
	var failure error
	add := func(attr slog.Attr) bool {
		switch text := fmt.Sprint(attr.Value.Any()); attr.Key {
		case "err", "advice", "reason":
			cause = ": " + oneLine(errors.New(text))
			if err, ok := attr.Value.Any().(error); ok {
				failure, told = err, cannotShow(err) // it ends the command, which says so
				cause = ": " + oneLine(l.app.embeddedEnded(err))
			}
		case "stream":
		default:
			details = append(details, attr.Key+" "+text)
		}
		return true
	}
	r.Attrs(add)
	if told || l.app.told(r.Message, failure) || l.app.quiet || l.app.results && strings.HasPrefix(r.Message, "handler ") {
		return nil
	}
	text := r.Message
	if text == callFailed && unanswered(failure) {
		text, details = "the server does not answer, it is tried again", nil
	}
	if l.app.exec {
		text = strings.Replace(text, "handler failed", "the command failed", 1)
	}
	if l.app.results {
		text = strings.Replace(text, "a message went to the dead letters", "a job is dead", 1)
	}
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	l.app.warn("%s", text+cause)
	return nil
}
