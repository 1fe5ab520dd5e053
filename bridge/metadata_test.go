package bridge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

// bytes256 is every byte there is.
var bytes256 = func() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}()

// TestMessages (B78, B80): a message comes out as it went in, byte by byte, and says where it comes from.
func TestMessages(t *testing.T) {
	tests := []struct {
		name string
		m    *message.Message
	}{
		{"nothing at all", note("")},
		{"a nil payload and nil metadata", &message.Message{UUID: "u"}},
		{"a UUID", message.NewMessage("3d6fc6e1", []byte("x"))},
		{"all bytes", with(message.NewMessage(bytes256, []byte(bytes256)), bytes256[:codec.MaxHeaderKey], bytes256)},
		{"an empty value, and an empty key", with(with(note("x"), "k", ""), "", "v")},
		{"a key", with(note("x"), bridge.MetaKey, "customer-17")},
		{"a name", with(note("x"), bridge.MetaName, "order.placed")},
		{"an empty name", with(note("x"), bridge.MetaName, "")},
		{"a name that is no type", with(note("x"), bridge.MetaName, strings.Repeat("n", codec.MaxType+1))},
	}
	each(t, func(t *testing.T, f fixture) {
		p := f.publisher(t)
		out := subscribe(t, f.subscriber(t, nil), "t")
		for _, tt := range tests {
			require.NoError(t, p.Publish("t", tt.m), tt.name)
			got := receive(t, out)
			require.True(t, got.Ack())
			id, at := got.Metadata[bridge.MetaID], got.Metadata[bridge.MetaTime]
			branded, err := codec.Parse(id)
			require.NoError(t, err, tt.name)
			appended, err := time.Parse(time.RFC3339, at)
			require.NoError(t, err, tt.name)
			require.Equal(t, branded.Time(), appended.UTC())
			require.Len(t, at, len("2026-01-02T15:04:05.000Z"))
			lag, err := time.ParseDuration(got.Metadata[bridge.MetaLag])
			require.NoError(t, err)
			require.Less(t, lag, patience)
			require.Equal(t, "1", got.Metadata[bridge.MetaAttempt])

			uuid := tt.m.UUID
			if uuid == "" {
				uuid = id
			}
			require.Equal(t, uuid, got.UUID, tt.name)
			require.Equal(t, string(tt.m.Payload), string(got.Payload), tt.name)
			passed := got.Copy() // what is passed on says nothing of where it comes from
			require.NoError(t, p.Publish("passed", passed))
			for _, key := range []string{bridge.MetaID, bridge.MetaTime, bridge.MetaLag, bridge.MetaAttempt} {
				delete(got.Metadata, key)
			}
			require.Len(t, got.Metadata, len(tt.m.Metadata), tt.name)
			for key, value := range tt.m.Metadata {
				require.Equal(t, value, got.Metadata[key], tt.name)
			}
		}
		for i, r := range f.all(t, "passed") {
			for _, h := range r.Headers {
				require.NotContains(t, h.Key, "_echomq_", tests[i].name)
			}
		}
	})
}

// TestOthersReadMessages: the key and the name of a message are those of the stream's message, both ways.
func TestOthersReadMessages(t *testing.T) {
	f := onOne(t)
	require.NoError(t, f.publisher(t).Publish("t", with(with(note("x"), bridge.MetaKey, "k"), bridge.MetaName, "n")))
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: f.scope + "/t", Pack: 2})
	require.NoError(t, err)
	ids, err := w.AppendBatch(t.Context(), []codec.Message{
		{Type: "n1", Key: "k1", Headers: codec.Headers{{Key: "h", Value: "v"}}, Data: []byte("1")},
		{Type: "n2", Key: "k2", Data: []byte("2")},
	})
	require.NoError(t, err)
	records := f.all(t, "t")
	require.Equal(t, "n", records[0].Type)
	require.Equal(t, "k", records[0].Key)
	require.Empty(t, records[0].Headers)

	out := subscribe(t, f.subscriber(t, nil), "t")
	require.True(t, receive(t, out).Ack())
	for i, id := range ids {
		m := receive(t, out)
		require.True(t, m.Ack())
		require.Equal(t, id.String(), m.UUID)
		require.Equal(t, []string{"n1", "n2"}[i], m.Metadata[bridge.MetaName])
		require.Equal(t, []string{"k1", "k2"}[i], m.Metadata[bridge.MetaKey])
		require.Equal(t, []string{"v", ""}[i], m.Metadata["h"])
	}
}

// TestPayloadIsTheReceivers: who writes into a payload, or behind it, touches no other message.
func TestPayloadIsTheReceivers(t *testing.T) {
	f := onOne(t)
	publish(t, f.publisher(t), "t", "one", "two")
	out := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) { c.MaxInFlight = 2 }), "t")
	one, two := receive(t, out), receive(t, out)
	_ = append(one.Payload, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"...)
	one.Payload[0] = 'X'
	require.Equal(t, "two", string(two.Payload))
	require.True(t, one.Nack())
	require.True(t, two.Ack())
	require.Equal(t, []string{"one"}, acked(t, out, 1))
}
