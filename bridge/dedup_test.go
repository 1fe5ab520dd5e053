package bridge_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestKeyRepository: of two messages with one key the second is a duplicate, whichever process asks, until the window ends; a message
// that comes again is none of itself.
func TestKeyRepository(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		open := func(window time.Duration) *bridge.KeyRepository {
			r, err := bridge.NewKeyRepository(f.client, stream.SeenConfig{Scope: f.scope, Name: "handler", Window: window})
			require.NoError(t, err)
			return r
		}
		duplicate := func(r *bridge.KeyRepository, ctx context.Context, key string) bool {
			is, err := r.IsDuplicate(ctx, key)
			require.NoError(t, err)
			return is
		}
		a, b := open(time.Hour), open(time.Hour)
		out := subscribe(t, f.subscriber(t, nil), "t")
		publish(t, f.publisher(t), "t", "0", "1")
		first := receive(t, out)
		require.False(t, duplicate(a, first.Context(), "key"))
		require.True(t, first.Nack())
		first = receive(t, out)
		require.Equal(t, "2", first.Metadata[bridge.MetaAttempt])
		require.False(t, duplicate(b, first.Context(), "key"), "of itself")
		require.True(t, first.Ack())
		second := receive(t, out)
		require.True(t, duplicate(b, second.Context(), "key"))
		require.False(t, duplicate(b, second.Context(), "another key"))
		require.True(t, second.Ack())
		require.True(t, duplicate(a, t.Context(), "key"))
		require.False(t, duplicate(a, t.Context(), "plain"))
		require.True(t, duplicate(a, t.Context(), "plain"))

		short := open(30 * time.Millisecond)
		require.False(t, duplicate(short, t.Context(), "short"))
		tiertest.Eventually(t, patience, func() (bool, string) { return !duplicate(short, t.Context(), "short"), "it counts for ever" })

		_, err := bridge.NewKeyRepository(f.client, stream.SeenConfig{Scope: f.scope, Name: "handler"})
		require.ErrorIs(t, err, stream.ErrBadCall)
		_, err = a.IsDuplicate(t.Context(), "")
		require.ErrorIs(t, err, stream.ErrBadCall)
	})
}

type placed struct {
	Order string
	Cents int64 `msgpack:"c"`
}

// TestMsgpackMarshaler: a value comes out as it went in, by its name, and a payload of somebody else is an error.
func TestMsgpackMarshaler(t *testing.T) {
	m := bridge.MsgpackMarshaler{}
	msg, err := m.Marshal(&placed{"o-1", 250})
	require.NoError(t, err)
	require.NotEmpty(t, msg.UUID)
	require.Equal(t, "bridge_test.placed", m.NameFromMessage(msg))
	require.Equal(t, m.Name(placed{}), m.Name(&placed{}))
	var got placed
	require.NoError(t, m.Unmarshal(msg, &got))
	require.Equal(t, placed{"o-1", 250}, got)
	for _, payload := range []string{"", "\xc1", "\xdf\xff\xff\xff\xff", "\x82\xa5Order\xcf\xff\xff\xff\xff\xff\xff\xff\xff"} {
		require.Error(t, m.Unmarshal(note(payload), &got), "%q", payload)
	}
	_, err = m.Marshal(make(chan int))
	require.Error(t, err)
	named := bridge.MsgpackMarshaler{NewUUID: func() string { return "u" }, NameOf: func(any) string { return "n" }}
	msg, err = named.Marshal(1)
	require.NoError(t, err)
	require.Equal(t, "u n", msg.UUID+" "+named.NameFromMessage(msg))
}

// TestLogger: what is logged arrives at a Watermill logger, with its level, its fields and its error.
func TestLogger(t *testing.T) {
	to := watermill.NewCaptureLogger()
	log := bridge.NewLogger(to).With("scope", "s").WithGroup("g").With("a", 1)
	log.Error("bad", "err", io.EOF, slog.Group("in", "b", 2))
	log.Error("no error")
	log.Warn("odd", "err", io.EOF)
	log.Debug("fine")
	log.Log(t.Context(), slog.LevelDebug-4, "traced")
	with := func(fields watermill.LogFields) watermill.LogFields {
		return watermill.LogFields{"scope": "s", "g.a": int64(1)}.Add(fields)
	}
	for _, want := range []struct {
		level  watermill.LogLevel
		msg    string
		err    error
		fields watermill.LogFields
	}{
		{watermill.ErrorLogLevel, "bad", io.EOF, with(watermill.LogFields{"g.in.b": int64(2)})},
		{watermill.ErrorLogLevel, "no error", errors.New("no error"), with(nil)},
		{watermill.InfoLogLevel, "odd", nil, with(watermill.LogFields{"err": "EOF"})},
		{watermill.DebugLogLevel, "fine", nil, with(nil)},
		{watermill.TraceLogLevel, "traced", nil, with(nil)},
	} {
		i := slices.IndexFunc(to.Captured()[want.level], func(m watermill.CapturedMessage) bool { return m.Msg == want.msg })
		require.GreaterOrEqual(t, i, 0, want.msg)
		got := to.Captured()[want.level][i]
		require.Equal(t, want.fields, got.Fields, want.msg)
		require.Equal(t, want.err, got.Err, want.msg)
	}
}

// flaky fails every third time.
type flaky struct {
	message.Publisher
	calls int
}

func (p *flaky) Publish(topic string, ms ...*message.Message) error {
	if p.calls++; p.calls%3 == 0 {
		return io.ErrClosedPipe
	}
	return p.Publisher.Publish(topic, ms...)
}

// TestSink: all messages of a stream arrive at a publisher, in order, though it fails now and then.
func TestSink(t *testing.T) {
	f := onOne(t)
	publish(t, f.publisher(t), "from", numbers(50)...)
	cursor, err := stream.NewCursor(f.client, stream.CursorConfig{Address: f.scope + "/from", Name: "sink", Start: stream.Head()})
	require.NoError(t, err)
	cfg := quick
	cfg.Order = consumer.Strict
	c, err := consumer.New(consumer.Exclusive(cursor), bridge.Sink(&flaky{Publisher: f.publisher(t)}, "to"), cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	out := subscribe(t, f.subscriber(t, nil), "to")
	for _, want := range numbers(50) {
		m := receive(t, out)
		require.Equal(t, want, m.UUID)
		require.Equal(t, want, string(m.Payload))
		require.True(t, m.Ack())
	}
	stop()
	require.NoError(t, <-ended)
}
