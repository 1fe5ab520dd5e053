package bridge

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// NewLogger makes a *slog.Logger, as this module's parts take it, of a Watermill logger. The other way round is
// watermill.NewSlogLogger. Warnings are Info to Watermill, which has none; names of groups become parts of keys, as in
// "request.id".
func NewLogger(to watermill.LoggerAdapter) *slog.Logger { return slog.New(logHandler{to: to}) }

type logHandler struct {
	to     watermill.LoggerAdapter
	prefix string
}

func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	fields := watermill.LogFields{}
	var err error
	r.Attrs(func(a slog.Attr) bool {
		if e, ok := a.Value.Any().(error); ok && err == nil {
			err = e
			return true
		}
		h.add(fields, h.prefix, a)
		return true
	})
	switch {
	case r.Level >= slog.LevelError:
		if err == nil {
			err = errors.New(r.Message)
		}
		h.to.Error(r.Message, err, fields)
		return nil
	case err != nil:
		fields["err"] = err.Error()
	}
	switch {
	case r.Level >= slog.LevelInfo:
		h.to.Info(r.Message, fields)
	case r.Level >= slog.LevelDebug:
		h.to.Debug(r.Message, fields)
	default:
		h.to.Trace(r.Message, fields)
	}
	return nil
}

func (h logHandler) add(fields watermill.LogFields, prefix string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		fields[prefix+a.Key] = value.Any()
		return
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, inner := range value.Group() {
		h.add(fields, prefix, inner)
	}
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := watermill.LogFields{}
	for _, a := range attrs {
		h.add(fields, h.prefix, a)
	}
	return logHandler{h.to.With(fields), h.prefix}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return logHandler{h.to, h.prefix + name + "."}
}
